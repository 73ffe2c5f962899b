"""The pool of one process shares what it knows of its proxies, and works alone if it cannot."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Request
from silkline.errors import ProxyFailure, StoreUnavailable
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.proxies import Proxies
from silkline.fetch.proxy import pool
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import LocalSite, MemoryFrontier
from tests.proxies import ProxyServer

SECRET = "s3cr3t-w0rd"
LIMITS = Limits(timeout=60, connect_timeout=30)


class Server:
    """What the workers of a crawl share, unless it is away."""

    def __init__(self, frontier):
        self.frontier = frontier
        self.is_away = False
        self.calls = []

    async def share(self, worker, since, rests, reports):
        self.calls.append(reports)
        if self.is_away:
            raise StoreUnavailable("away")
        return await self.frontier.internal.share_proxies(worker, since, rests, reports)


@pytest.fixture
async def server():
    async with await MemoryFrontier.open(crawl="books") as frontier:
        yield Server(frontier)


@pytest.fixture
async def open_fetcher(server):
    opened, tasks = [], []

    def open_(*urls):
        fetcher = WreqFetcher(LIMITS, guard=Guard(allow_private=True), proxy=Proxies(list(urls)))
        opened.append(fetcher)
        tasks.append(asyncio.create_task(fetcher.proxies.share_health(server.share)))
        return fetcher

    yield open_
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for fetcher in opened:
        await fetcher.close()


async def fetch(fetcher, site, count):
    """Fetch pages one after another."""
    while count:
        try:
            await fetcher.fetch(Request(site.at("/", "a.test")), user_agent="test")
            count -= 1
        except ProxyFailure:
            await asyncio.sleep(0.01)


@pytest.fixture
def long_rests(monkeypatch):
    """The first rest of a proxy is as long as the longest one, half a minute."""
    monkeypatch.setattr(pool, "FIRST_REST", 600.0)


@pytest.mark.usefixtures("long_rests")
async def test_while_the_server_is_away_each_process_decides_and_reports_later(server, open_fetcher):
    server.is_away = True
    async with LocalSite({"*": "a page"}) as site, ProxyServer(behavior="closes") as bad, ProxyServer() as good:
        fetcher = open_fetcher(bad.url, good.url)
        await fetch(fetcher, site, 20)
        await asyncio.gather(*fetcher.proxies._tasks)
        assert (bad.accepted, len(good.targets)) == (1, 20)
        assert await server.frontier.admin.proxies() == []
        server.is_away = False
        await fetcher.proxies.report_rest()
    known = {proxy.proxy: proxy for proxy in await server.frontier.admin.proxies()}
    assert (known[bad.url].state, known[bad.url].why) == ("resting", "it closes connections")
    assert (known[good.url].state, known[good.url].fetched) == ("ready", 20)


@pytest.mark.usefixtures("long_rests")
async def test_a_proxy_that_is_alone_is_tried_again_by_one_process(server, open_fetcher):
    async with LocalSite({"*": "a page"}) as site, ProxyServer() as proxy:
        url = proxy.url
        await proxy.die()
        fetchers = [open_fetcher(url) for _ in range(3)]
        nows = [[0.0] for _ in fetchers]
        for fetcher, now in zip(fetchers, nows, strict=True):
            fetcher.proxies._clock = lambda now=now: now[0]
            with pytest.raises(ProxyFailure):
                await fetch_once(fetcher, site)
        await asyncio.gather(*(fetcher.proxies.report_rest() for fetcher in fetchers))
        [known] = await server.frontier.admin.proxies()
        assert (known.state, known.failures) == ("resting", 1)


async def fetch_once(fetcher, site):
    return await fetcher.fetch(Request(site.at("/", "a.test")), user_agent="test")


async def test_names_have_no_user_and_password_but_tell_apart_what_has_the_same_address(server, open_fetcher):
    async with LocalSite({"*": "a page"}) as site, ProxyServer() as proxy:
        urls = [f"http://{user}:{SECRET}@{proxy.place}" for user in ("us3r-a", "us3r-b", "us3r-c")]
        fetcher = open_fetcher(*urls)
        await fetch(fetcher, site, 9)
        await asyncio.gather(*fetcher.proxies._tasks)
        await fetcher.proxies.report_rest()
    place = f"http://{proxy.place}"
    assert {one.proxy for one in await server.frontier.admin.proxies()} == {place, f"{place}#2", f"{place}#3"}
    assert SECRET not in f"{server.calls}"
    assert "us3r" not in f"{server.calls}"


async def test_pages_cost_no_calls(server, open_fetcher):
    async with LocalSite({"*": "a page"}) as site, ProxyServer() as one, ProxyServer() as two:
        fetcher = open_fetcher(one.url, two.url)
        await fetch(fetcher, site, 2)
        await asyncio.gather(*fetcher.proxies._tasks)
        before, began = len(server.calls), asyncio.get_running_loop().time()
        await fetch(fetcher, site, 100)
        elapsed = asyncio.get_running_loop().time() - began
    assert len(server.calls) - before <= elapsed + 2
