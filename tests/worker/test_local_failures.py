"""A worker whose machine is short of something buries no page for it."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import sys

import pytest

from silkline import FetchOptions, Frontier
from silkline.errors import HostUnreachable, LocalFailure
from silkline.fetch.fetcher import Headers, Response
from silkline.fetch.guard import Guard
from silkline.fetch.resolver import SystemResolver
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import SiteProcess
from silkline.worker import throttling
from silkline.worker.throttling import AdaptiveConcurrency
from tests.hostile_site.pages import HOSTILE_SITE
from tests.patched import patch_for
from tests.worker.broad import broad_crawl

NO_DESCRIPTORS = LocalFailure("this worker has used up its file descriptors", "descriptors")


@pytest.mark.parametrize(
    ("hosts", "descriptors"),
    [(600, 160), pytest.param(3_000, 256, marks=pytest.mark.long), pytest.param(3_000, 100, marks=pytest.mark.long)],
)
async def test_a_broad_crawl_with_few_file_descriptors_buries_nothing(hosts, descriptors, valkey, crawl):
    with SiteProcess(HOSTILE_SITE, hosts=1) as site:
        async with await Frontier.open(valkey.url, crawl=crawl, **broad_crawl(crawl).arguments) as frontier:
            await frontier.enqueue([site.at("/status/200", f"h{number}.localhost") for number in range(hosts)])
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.worker.broad", valkey.url, crawl),
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)),
        )
        _, said = await worker.communicate()
        assert worker.returncode == 0, said.decode()
    async with await Frontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        stats = await frontier.admin.stats()
    assert (stats.done, stats.dead) == (hosts, 0)


class Starving:
    """A fetcher that has no descriptors for its first fetches, and whose other hosts do not exist."""

    def __init__(self, failures):
        self._failures = failures
        self.fetched = []

    async def fetch(self, request, *, user_agent, cut=None):
        if self._failures:
            self._failures -= 1
            raise LocalFailure("this worker has used up its file descriptors", "descriptors")
        self.fetched.append(request.url)
        if "gone" in request.url:
            raise HostUnreachable(f"DNS has no address for {request.url}", "dns")
        return Response(request.url, 404 if "robots" in request.url else 200, Headers(), b"<p>page</p>", 0.0)

    async def close(self):
        pass


async def test_a_page_that_meets_a_shortage_is_given_back_and_no_attempt_is_counted(
    run, new_crawl, monkeypatch, caplog
):
    monkeypatch.setattr(throttling, "AGAIN", 0.02)
    fetcher = Starving(failures=60)
    starts = [f"http://h{number}.example/" for number in range(30)]
    crawl = new_crawl(starts, retries=[0.05], fetching=FetchOptions(fetcher=lambda _: fetcher))

    @crawl.handler
    def parse(page):
        yield {"url": page.url}

    with caplog.at_level(logging.WARNING):
        done = await run(crawl)
    assert (done.stats.done, done.stats.dead) == (30, 0)
    assert done.counters.errors == {"local: descriptors": 60}
    assert len([record for record in caplog.records if "used up" in record.message]) == 1
    assert done.worker.concurrency < done.worker.options.concurrency


async def test_robots_txt_that_meets_a_shortage_is_fetched_again_at_once(run, new_crawl, monkeypatch):
    """It does not count as unreachable, for which pages would wait and be buried."""
    monkeypatch.setattr(throttling, "AGAIN", 0.02)
    fetcher = Starving(failures=1)
    crawl = new_crawl("http://a.example/", retries=[0.05], fetching=FetchOptions(fetcher=lambda _: fetcher))

    @crawl.handler
    def parse(page):
        yield {"url": page.url}

    done = await run(crawl)
    assert fetcher.fetched == ["http://a.example/robots.txt", "http://a.example/"]
    assert len(done.items) == 1


async def test_a_resolver_without_its_own_servers_buries_no_page(run, new_crawl, monkeypatch, caplog):
    """It replies from its cache, and that it has no reply for all else. After a while it has its servers again."""
    monkeypatch.setattr(throttling, "AGAIN", 0.02)
    monkeypatch.setattr("silkline.fetch.resolver.PROBE_TTL", 0.05)
    failed = []

    def look_up(name):
        if name == "silkline.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if len(failed) < 36:
            failed.append(name)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return ["127.0.0.1"]

    with SiteProcess(HOSTILE_SITE) as site:
        guard = Guard(allow_private=True, resolver=SystemResolver(lookup=look_up), ttl=0.01)
        fetching = FetchOptions(fetcher=lambda _: WreqFetcher(guard=guard), allow_private=True, obey_robots=False)
        starts = [site.at("/status/200", f"www.site{number}.test") for number in range(12)]
        crawl = new_crawl(starts, retries=[0.05], fetching=fetching)

        @crawl.handler
        def parse(page):
            yield {"url": page.url}

        with caplog.at_level(logging.WARNING):
            done = await run(crawl)
    assert (done.stats.done, done.stats.dead) == (12, 0)
    assert len([record for record in caplog.records if "lost its own servers" in record.message]) == 1


def test_concurrency_is_halved_once_for_failures_at_the_same_time_and_doubled_back(monkeypatch):
    now = 1_000.0
    patch_for(monkeypatch, throttling, "time", monotonic=lambda: now)
    places = AdaptiveConcurrency(64)
    for _ in range(10):
        assert 0 < places.on_shortage(NO_DESCRIPTORS) < 60
    assert places.concurrency == 32
    for _ in range(10):
        now += 1
        places.on_shortage(NO_DESCRIPTORS)
    assert places.concurrency == 1
    for _ in range(10):
        now += 10
        places.recover()
    assert places.concurrency == 64


def test_a_worker_begins_with_no_more_pages_than_its_descriptors_permit(monkeypatch, caplog):
    monkeypatch.setattr(throttling, "pages", lambda: 18)
    assert AdaptiveConcurrency(64).concurrency == 18
    assert "allows 18 concurrent pages instead of 64" in caplog.text
    assert AdaptiveConcurrency(10).concurrency == 10
