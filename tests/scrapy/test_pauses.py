"""A crawl that is stopped goes on where it stopped; one whose server is away waits, and does nothing else worse."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter

import pytest

from silkline import SyncFrontier
from silkline.errors import UnknownCrawl
from silkline.testing.site import LocalSite, Shop, SiteProcess
from tests.scrapy.conftest import both_versions
from tests.scrapy.processes import lines, until

SHOP = Shop(pages=120, trouble=False)
GENTLE = {"CONCURRENT_REQUESTS": 4, "SCHEDULER_PERSIST": True}


@both_versions
def test_a_crawl_is_stopped_twice_and_continues_exactly_where_it_stopped(scrapy, out, valkey, crawl, version):
    with SiteProcess(SHOP, latency=0.02) as site:

        def start(**settings):
            return scrapy("crawl", "chain", "-a", f"site={site.url}", version=version, settings=GENTLE | settings)

        first = start(CLOSESPIDER_ITEMCOUNT=20)
        assert first.wait() == 0
        assert first.stats["finish_reason"] == "closespider_itemcount"
        with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
            stats = frontier.admin.stats()
            assert stats.leased == 0  # what was claimed ahead was given back
            assert stats.done == len(lines(out)) < SHOP.pages

        second = start()
        second.said("Resuming crawl")
        until(lambda: len(lines(out)) > 45)
        second.interrupt()
        assert second.wait() == 0, second.log
        assert second.stats["finish_reason"] == "shutdown"
        assert len(lines(out)) < SHOP.pages

        third = start()
        assert third.wait() == 0, third.log
        assert third.stats["finish_reason"] == "finished"
        visits = Counter(visit.path for visit in site.visits)
        reached = Counter(item["url"].removeprefix(site.url.rstrip("/")) for item in lines(out))
    assert reached == visits == Counter(SHOP.paths())


def beats(ticks, since):
    """When the reactor had time to tell; it does so every 20 ms, but for what keeps it."""
    return [beat for beat in map(float, ticks.read_text().splitlines()[:-1]) if beat > since]


@pytest.mark.parametrize("reactor", [None, "twisted.internet.epollreactor.EPollReactor"])
def test_a_server_that_is_frozen_and_then_restarted_costs_time_and_nothing_else(
    scrapy, out, own_server, tmp_path, crawl, reactor
):
    server = own_server(appendonly="yes", appendfsync="always")
    ticks = tmp_path / "ticks"
    settings = GENTLE | {"TWISTED_REACTOR": reactor, "SILKLINE_LEASE": 30}
    with SiteProcess(SHOP, latency=0.02) as site:
        run = scrapy("crawl", "ticker", "-a", f"site={site.url}", url=server.url, settings=settings, TICKS=ticks)
        until(lambda: len(lines(out)) > 20)
        server.freeze()
        frozen = time.monotonic()
        until(lambda: len(beats(ticks, since=frozen)) > 100)  # the reactor does not wait for the server
        server.thaw()
        before = len(lines(out))
        until(lambda: len(lines(out)) > before + 10)
        server.kill()
        run.said("the server is unreachable")
        server.start()
        run.said("the server is reachable again")
        assert run.wait() == 0, run.log
        reached = Counter(item["url"] for item in lines(out))
    assert len(reached) == SHOP.pages
    assert sum(reached.values()) == SHOP.pages
    assert "ERROR" not in run.log


@both_versions
def test_while_the_server_does_not_reply_the_places_of_a_site_go_from_page_to_page(
    scrapy, out, own_server, crawl, version
):
    """A place whose page is downloaded is handed over to a request in reserve, and the site never gets more at a time."""
    server, released = own_server(), threading.Event()

    async def hold(visit):
        while not released.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return "<h1>a page</h1>"

    links = "".join(f"<a href=/held/{number}>a page</a>" for number in range(12))
    settings = {"CONCURRENT_REQUESTS": 8, "CONCURRENT_REQUESTS_PER_DOMAIN": 2, "SILKLINE_LEASE": 60}
    with LocalSite({"/": links, "/held/*": hold}) as site:
        run = scrapy("crawl", "chain", "-a", f"site={site.url}", url=server.url, settings=settings, version=version)
        with until(lambda: opened(server.url, crawl)) as frontier:
            until(lambda: frontier.admin.stats().leased == 4)  # two with a place, two in reserve
            until(lambda: len(site.visits) == 3)
            server.freeze()
            released.set()
            until(lambda: len(site.visits) == 5)
            server.thaw()
            assert run.wait() == 0, run.log
            assert site.visits.greatest_concurrency() == 2
            assert frontier.admin.stats().done == len(lines(out)) == 13
    assert "ERROR" not in run.log


def opened(url, crawl):
    try:
        return SyncFrontier.open(url, crawl=crawl, create=False)
    except UnknownCrawl:
        return None
