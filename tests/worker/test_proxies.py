"""A worker that fetches through a proxy: no page pays for what the proxy breaks."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack

import msgspec
import pytest

from silkline import Backoff, FetchOptions, Frontier, Politeness
from silkline.fetch import Proxies
from silkline.fetch.proxy import pool as proxy_pool
from silkline.ops.notices import crawl_notices
from silkline.testing import SiteResponse
from silkline.worker.worker import Worker
from tests.proxies import ProxyServer
from tests.worker.conftest import OPTIONS, until

PAGES = 60


@pytest.fixture
def through(new_crawl):
    """Makes a crawl of many pages through a proxy."""

    def make(site, url, hosts=3, **settings):
        starts = [site.at(f"/{number}", f"h{number % hosts}.test") for number in range(PAGES)]
        crawl = new_crawl(
            starts, retries=Backoff(max_attempts=1), fetching=FetchOptions(allow_private=True, proxy=url), **settings
        )

        @crawl.handler
        def parse(page):
            yield {"url": page.url}

        return crawl

    return make


async def test_a_crawl_through_a_proxy_is_as_polite_as_without_one(serve, through, run):
    site = await serve({"*": "a page"})
    async with ProxyServer() as proxy:
        done = await run(through(site, proxy.url, hosts=20, politeness=Politeness(delay=0.5)))
    assert len({item["url"] for item in done.items}) == PAGES
    assert set(proxy.targets) == {f"h{number}.test:{site.port}" for number in range(20)}
    for number in range(20):
        host = f"h{number}.test:{site.port}"
        assert site.visits.smallest_gap(host) >= 0.25  # half, for a busy machine
        assert site.visits.greatest_concurrency(host) == 1


@pytest.mark.parametrize("behavior", ["dead", "closes", "garbage", "wrong login"])
async def test_while_the_proxy_is_broken_pages_wait_and_lose_no_attempt(
    behavior, serve, through, run, new_crawl, monkeypatch, caplog
):
    monkeypatch.setattr(proxy_pool, "FIRST_REST", 0.2)
    monkeypatch.setattr(proxy_pool, "LONGEST_OF_FEW", 0.5)
    site = await serve({"*": "a page"})
    async with ProxyServer(behavior=behavior if behavior in ("closes", "garbage") else "good") as proxy:
        if behavior == "dead":
            await proxy.die()
        proxy.login = ("user", "another") if behavior == "wrong login" else None
        crawl = through(site, f"http://user:s3cr3t@{proxy.place}")
        async with await Frontier.open(run.url, crawl=crawl.name, **crawl.arguments) as frontier:
            await frontier.enqueue(await crawl.starts())
            with caplog.at_level(logging.WARNING):
                worker = Worker(crawl, frontier, options=OPTIONS)
                working = asyncio.create_task(worker.run())
                await until(lambda: worker.stall)
                await until(lambda: proxy.accepted >= 3 or behavior == "dead")
            assert "does not work" in worker.stall
            status, roster = await frontier.admin.status(), await frontier.admin.workers()
            (notice,) = [one for one in crawl_notices(status, roster) if one.kind == "proxies"] or [None]
            if notice:  # once the worker has reported it
                assert notice.severe
            if behavior == "dead":
                await proxy.start()
            proxy.behavior, proxy.login = "good", None
            counters = await working
            stats = await frontier.admin.stats()
    assert (stats.done, stats.dead, counters.retried, counters.buried) == (PAGES, 0, 0, 0)
    assert not worker.stall
    assert [line for line in caplog.messages if "none of them is buried" in line]
    assert caplog.messages[-1].endswith("works again")
    assert "s3cr3t" not in caplog.text


async def test_a_proxy_that_dies_and_returns_costs_no_page_an_attempt(serve, through, run, monkeypatch):
    monkeypatch.setattr(proxy_pool, "FIRST_REST", 0.2)
    monkeypatch.setattr(proxy_pool, "LONGEST_OF_FEW", 0.5)
    site = await serve({"*": SiteResponse("a page", delay=0.02)})
    async with ProxyServer() as proxy:
        crawl = through(site, proxy.url)
        async with await Frontier.open(run.url, crawl=crawl.name, **crawl.arguments) as frontier:
            await frontier.enqueue(await crawl.starts())
            worker = Worker(crawl, frontier, options=OPTIONS)
            working = asyncio.create_task(worker.run())
            for pages in (10, 30):
                await until(lambda enough=pages: len(site.visits) >= enough)
                await proxy.die()
                await until(lambda: worker.proxy_trouble)
                await proxy.start()
            counters = await working
            stats = await frontier.admin.stats()
    assert (stats.done, stats.dead, counters.retried) == (PAGES, 0, 0)


async def test_pages_of_a_host_that_no_proxy_reaches_become_dead_letters_and_the_crawl_ends(
    serve, through, run, monkeypatch
):
    monkeypatch.setattr(proxy_pool, "FIRST_REST", 0.02)
    site = await serve({"*": "a page"})
    async with ProxyServer(behavior="refuses") as proxy:
        proxy.reaches |= {"h0.test", "h1.test"}
        done = await run(through(site, proxy.url))
    assert (done.stats.done, done.stats.dead) == (PAGES * 2 // 3, PAGES // 3)


async def test_errors_of_a_site_that_the_only_proxy_marks_as_its_own_end_like_others(serve, through, run, monkeypatch):
    monkeypatch.setattr(proxy_pool, "FIRST_REST", 0.02)
    site = await serve({"/robots.txt": 404, "*": "a page", **{f"/{number}": 404 for number in range(0, PAGES, 2)}})
    async with ProxyServer(behavior="lies") as proxy:
        done = await run(through(site, proxy.url))
    assert (done.stats.done, done.stats.dead) == (PAGES // 2, PAGES // 2)


async def test_dead_proxies_among_several_cost_no_page_an_attempt(serve, through, run):
    """One dies while the crawl runs. Politeness is that of the hosts."""
    site = await serve({"*": SiteResponse("a page", delay=0.02)})
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ProxyServer(login=("user", "s3cr3t"))) for _ in range(6)]
        await servers[0].die()
        servers[1].behavior = "closes"
        servers[2].login = ("user", "another")
        urls = [f"http://user:s3cr3t@{server.place}" for server in servers]
        crawl = through(site, urls, hosts=5, politeness=Politeness(delay=0, concurrency=2))
        working = asyncio.create_task(run(crawl))
        await until(lambda: len(site.visits) >= PAGES // 3)
        await servers[3].die()
        done = await working
    assert (done.stats.done, done.stats.dead, done.counters.retried) == (PAGES, 0, 0)
    assert len({item["url"] for item in done.items}) == PAGES
    assert all(site.visits.greatest_concurrency(f"h{number}.test:{site.port}") <= 2 for number in range(5))
    assert not servers[1].targets
    assert not servers[2].targets
    assert min(len(server.targets) for server in servers[4:]) >= PAGES // 10


async def test_pages_of_a_host_that_blocks_cost_no_attempt_and_keep_its_delay(serve, through, run):
    def blocking(visit):
        return SiteResponse("blocked", 403) if "via" in visit.headers and visit.host.startswith("h0.") else "a page"

    site = await serve({"*": blocking})
    async with ProxyServer() as cheap, ProxyServer() as costly:
        cheap.adds = "Via: 1.1 cheap"
        proxies = Proxies(tiers=[cheap.url, costly.url])
        done = await run(through(site, proxies, hosts=20, politeness=Politeness(delay=0.5)))
    assert (done.stats.done, done.stats.dead, done.counters.retried) == (PAGES, 0, 0)
    assert set(costly.targets) == {f"h0.test:{site.port}"}
    for number in range(20):
        host = f"h{number}.test:{site.port}"
        assert site.visits.smallest_gap(host) >= 0.25  # half, for a busy machine
        assert site.visits.greatest_concurrency(host) == 1


BEGINNINGS = 0, 2, 10, 42
"""Seconds after which the workers of a crawl check a dead proxy."""


@pytest.mark.parametrize("trouble", ["closes", "silent"])
async def test_all_workers_together_check_a_dead_proxy_once(trouble, serve, through, run):
    site = await serve({"*": SiteResponse("a page", delay=0.05)})
    async with AsyncExitStack() as stack:
        good = [await stack.enter_async_context(ProxyServer(login=("user", "s3cr3t"))) for _ in range(3)]
        bad = [await stack.enter_async_context(ProxyServer(behavior=trouble)) for _ in range(4)]
        crawl = through(site, [server.url for server in (*bad, *good)], politeness=Politeness(delay=0, concurrency=9))
        began = time.monotonic()
        async with AsyncExitStack() as frontiers:
            opened = [
                await frontiers.enter_async_context(await Frontier.open(run.url, crawl=crawl.name, **crawl.arguments))
                for _ in range(4)
            ]
            await opened[0].enqueue(await crawl.starts())
            options = msgspec.structs.replace(OPTIONS, concurrency=2)
            await asyncio.gather(*(Worker(crawl, frontier, options=options).run() for frontier in opened))
            stats, known = await opened[0].admin.stats(), await opened[0].admin.proxies()
        elapsed = time.monotonic() - began
    assert (stats.done, stats.dead) == (PAGES, 0)
    allowed = sum(second <= elapsed for second in BEGINNINGS)
    assert max(server.accepted for server in bad) <= allowed
    assert 0 < sum(proxy.fetched for proxy in known) <= sum(len(server.targets) for server in good)
    assert "s3cr3t" not in f"{known}"


async def test_a_worker_learns_from_others_which_proxies_work(serve, through, run):
    """One that joins later checks none of them."""
    site = await serve({"*": "a page"})
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ProxyServer()) for _ in range(5)]
        await servers[0].die()
        crawl = through(site, [server.url for server in servers])
        async with await Frontier.open(run.url, crawl=crawl.name, **crawl.arguments) as frontier:
            starts = await crawl.starts()
            await frontier.enqueue(starts[:20])
            await Worker(crawl, frontier, options=OPTIONS).run()
            ready = {proxy.proxy for proxy in await frontier.admin.proxies() if proxy.state == "ready"}
            known = [server for server in servers if server.url in ready]
            checks = [server.checks for server in known]
            await frontier.enqueue(starts[20:])
            await Worker(crawl, frontier, options=OPTIONS).run()
            stats = await frontier.admin.stats()
    assert stats.done == PAGES
    assert known
    assert [server.checks for server in known] == checks
