"""Scrapy processes are members of their crawl like any other worker: they tell what they do, and do what they are ordered."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from silkline import SyncFrontier
from silkline.errors import UnknownCrawl
from silkline.frontier.verbs.history import HISTOGRAM
from silkline.ops.crawl_metrics import of_workers
from silkline.scrapy.bridge import worker_status
from silkline.scrapy.bridge.worker_status import ReactorProbe, ScrapyWorker
from silkline.testing.site import LocalSite, Shop, SiteProcess, SiteResponse, healing
from tests.held import held
from tests.scrapy.conftest import both_versions
from tests.scrapy.feeding import Spiders
from tests.scrapy.processes import lines, until


@pytest.fixture
def watch(valkey, crawl):
    """Opens the crawl as soon as a spider has made it."""
    with ExitStack() as stack:

        def look():
            try:
                return stack.enter_context(SyncFrontier.open(valkey.url, crawl=crawl, create=False))
            except UnknownCrawl:
                return None

        yield lambda: until(look)


def summed(frontier, name):
    return sum(getattr(point, name) for point in frontier.admin.history())


def only(frontier):
    """The one who is on the roster, as soon as somebody is."""
    [state] = until(frontier.admin.workers)
    return state


def next_beat(frontier):
    """Wait until it has told twice how it does: whatever it had begun before is in the second."""
    for _ in range(2):
        last = only(frontier).beat
        until(lambda: only(frontier).beat > last)  # noqa: B023


@both_versions
def test_it_reports_what_it_does_and_leaves_its_mark_in_the_history(scrapy, watch, version):
    shop, settings = Shop(pages=60, trouble=False), {"CONCURRENT_REQUESTS": 3, "SCHEDULER_PERSIST": True}
    seen = threading.Event()
    with LocalSite(held(shop.routes(), seen, free=10)) as site:
        run = scrapy("crawl", "chain", "-a", f"site={site.url}", settings=settings, version=version)
        frontier = watch()
        info = until(
            lambda: next((one.info for one in frontier.admin.workers() if one.info.get("in_flight") == 3), None)
        )
        assert (info["pid"], info["state"], info["concurrency"], info["trouble"]) == (run.pid, "working", 3, "")
        assert info["memory"] > 10_000_000
        assert info["scrapy"].startswith("2.")
        assert info["version"]
        assert len(info["urls"]) == 3
        assert all(url.startswith(site.url) for url in info["urls"])
        counted = {sample.labels["state"]: sample.value for sample in of_workers("c", frontier.admin.workers()).samples}
        assert counted == {"working": 1, "quiet": 0, "stopping": 0, "lost": 0}
        seen.set()
        assert run.wait() == 0, run.log
    assert frontier.admin.workers() == []
    for name in ("pages", "ended", "items", "fetched", "status_2xx"):
        assert (name, summed(frontier, name)) == (name, shop.pages)
    assert summed(frontier, "links") == shop.pages - 1
    assert summed(frontier, "bytes") >= shop.pages * 20
    assert summed(frontier, "errors") == summed(frontier, "lost") == 0
    assert sum(summed(frontier, name) for name in HISTOGRAM) == shop.pages
    handlers = frontier.admin.handlers()
    assert sum(one.pages for one in handlers.values()) == sum(one.items for one in handlers.values()) == shop.pages
    assert all((one.failures, one.exceptions, one.dead, one.p50) == (0, 0, 0, None) for one in handlers.values())
    assert summed(frontier, "busy_ms") >= summed(frontier, "fetch_ms") > 0
    last = [point.levels for point in frontier.admin.history() if point.levels][-1]
    assert (last.done, last.depth) == (shop.pages, 0)


def test_what_failed_and_was_tried_again_is_counted(scrapy, watch):
    sorry = healing(SiteResponse(status=503), "<h1>well again</h1>")
    pages = {
        "/": "<a href=/good>g</a><a href=/sorry>s</a><a href=/bad>b</a>",
        "/good": "<h1>good</h1>",
        "/sorry": sorry,
    }
    settings = {"SCHEDULER_PERSIST": True, "RETRY_ENABLED": True}
    with LocalSite(pages) as site:
        run = scrapy("crawl", "chain", "-a", f"site={site.at('/')}", settings=settings)
        assert run.wait() == 0, run.log
    frontier = watch()
    names = ("pages", "links", "errors", "retried", "buried", "status_2xx", "status_4xx", "status_5xx")
    assert {name: summed(frontier, name) for name in names} == {
        "pages": 3, "links": 3, "errors": 2, "retried": 1, "buried": 1, "status_2xx": 3, "status_4xx": 1, "status_5xx": 1,
    }  # fmt: skip
    handlers = frontier.admin.handlers().values()
    assert (sum(one.pages for one in handlers), sum(one.failures for one in handlers)) == (3, 2)
    assert (sum(one.exceptions for one in handlers), sum(one.dead for one in handlers)) == (0, 1)
    stats = frontier.admin.stats()
    assert summed(frontier, "ended") == stats.done + stats.dead
    [host] = frontier.admin.hosts(site.hosts[0])
    assert (host.answers.status_2xx, host.answers.status_4xx, host.answers.status_5xx) == (3, 1, 1)


def test_it_is_quiet_works_again_and_stops_as_it_is_ordered(scrapy, out, watch):
    shop, settings = Shop(pages=2_000, trouble=False), {"CONCURRENT_REQUESTS": 4, "SCHEDULER_PERSIST": True}
    with SiteProcess(shop, latency=0.05) as site:
        run = scrapy("crawl", "chain", "-a", f"site={site.url}", settings=settings)
        frontier = watch()
        until(lambda: len(lines(out)) > 10)
        name = only(frontier).name
        assert frontier.admin.order(name, "quiet")
        until(lambda: only(frontier).info["state"] == "quiet")
        until(lambda: frontier.admin.stats().leased == 0)
        done = frontier.admin.stats().done
        assert len(lines(out)) == done  # what it held was ended
        next_beat(frontier)
        assert frontier.admin.stats().done == done
        assert frontier.admin.stats().ready > 0
        frontier.admin.order(name, "work")
        until(lambda: len(lines(out)) > done + 10)
        frontier.admin.order(name, "stop")
        assert run.wait() == 0, run.log
        assert run.stats["finish_reason"] == "stopped by an operator"
        stats, visits = frontier.admin.stats(), len(site.visits)
    assert (stats.leased, stats.rescued, stats.dead) == (0, 0, 0)
    assert stats.ready > 0
    assert stats.done == len(lines(out)) == visits
    assert frontier.admin.workers() == []
    assert "ERROR" not in run.log


def test_a_quiet_spider_takes_neither_messages_nor_what_others_bring(zygotes, valkey, watch, crawl, tmp_path):
    """Also when it was waiting for something to do as the order came."""
    with (
        LocalSite({"/*": "a page"}) as site,
        Spiders(zygotes("newest"), tmp_path, valkey.url, {crawl: ["Fed", {}]}) as run,
        valkey.client() as client,
    ):
        frontier = watch()
        name = only(frontier).name
        frontier.admin.order(name, "quiet")
        until(lambda: only(frontier).info.get("state") == "quiet")
        client.rpush(f"{crawl}:start_urls", site.at("/pushed"))
        frontier.enqueue([site.at("/brought")])
        next_beat(frontier)
        assert len(site.visits) == 0
        assert client.llen(f"{crawl}:start_urls") == 1
        frontier.admin.order(name, "work")
        until(lambda: {visit.path for visit in site.visits} == {"/pushed", "/brought"})
        frontier.admin.order(name, "stop")
        assert run.wait() == 0, run.log
    assert "stopped by an operator" in run.log


def test_a_reactor_that_does_not_answer_is_reported(monkeypatch):
    calls = []
    probe = ReactorProbe(calls.append)
    one = ScrapyWorker(None, None, None, probe, None)
    monkeypatch.setattr(worker_status, "SILENT_AFTER", 0.0)
    assert one.stall is None, "it was not asked yet"
    assert "the reactor has been blocked for" in one.stall
    assert len(calls) == 1, "and is not asked again before it has"
    calls.pop()()
    assert one.stall is None
