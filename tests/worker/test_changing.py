"""What an operator changes for a crawl while a worker is at work on it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from silkline import FetchOptions, Frontier, Politeness, Request
from silkline.fetch.aiohttp_fetcher import AiohttpFetcher
from silkline.fetch.fetcher import Headers, Response
from silkline.fetch.guard import Guard
from silkline.runtime import presence
from silkline.testing import SiteProcess
from silkline.worker.robots import RedirectPacer, RobotsResponse
from silkline.worker.worker import Worker
from tests.hostile_site.pages import HOSTILE_SITE


@pytest.fixture(scope="module")
def site():
    with SiteProcess(HOSTILE_SITE) as site:
        yield site


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(presence, "EVERY", 0.05)


def parse(page):
    """Nothing to do."""


@asynccontextmanager
async def at_work(crawl, url):
    """A worker that goes on, and its frontier."""
    async with await Frontier.open(url, crawl=crawl.name, **crawl.arguments) as frontier:
        worker = Worker(crawl, frontier, forever=True)
        working = asyncio.create_task(worker.run())
        try:
            yield worker, frontier
        finally:
            worker.stop()
            await working


async def until(ask):
    async with asyncio.timeout(100):
        while not await ask():  # noqa: ASYNC110 - it is another process, or another task, that changes it
            await asyncio.sleep(0.02)


async def permit(frontier, allowed):
    stored = await frontier.admin.run_options()
    await frontier.admin.set_run_options(msgspec.structs.replace(stored, allow_private=allowed))


@pytest.mark.parametrize("kind", ["wreq", "aiohttp"])
async def test_a_worker_follows_when_private_addresses_are_allowed_or_refused(kind, site, run, new_crawl, soon, caplog):
    fetcher = {
        "wreq": None,
        "aiohttp": lambda fetching: AiohttpFetcher(guard=Guard(allow_private=fetching.allow_private)),
    }
    crawl = new_crawl(fetching=FetchOptions(obey_robots=False, fetcher=fetcher[kind]))
    crawl.handler(parse)
    async with at_work(crawl, run.url) as (worker, frontier):

        async def fetch(path):
            await frontier.enqueue(Request(site.at(path, "127.0.0.1"), depth=1))  # a start URL would be given back

        async def counts(done, dead):
            stats = await frontier.admin.stats()
            return (stats.done, stats.dead) == (done, dead)

        await fetch("/status/200")
        await until(lambda: counts(0, 1))
        await permit(frontier, True)
        await until(lambda: _is(worker.crawl.fetching.allow_private))
        await fetch("/status/201")
        await until(lambda: counts(1, 1))
        await permit(frontier, False)
        await until(lambda: _is(not worker.crawl.fetching.allow_private))
        await fetch("/status/202")
        await until(lambda: counts(1, 2))
    assert "private addresses are allowed from now on" in caplog.text
    assert "private addresses are refused from now on" in caplog.text


async def _is(fact):
    return fact


async def test_a_fetcher_of_the_user_s_own_has_to_be_restarted_for_it(run, new_crawl, soon, caplog):
    class Own:
        async def fetch(self, request, *, user_agent, cut=None):
            return Response(request.url, 200, Headers(), b"", 0.0)

        async def close(self):
            pass

    crawl = new_crawl(fetching=FetchOptions(fetcher=lambda _: Own()))
    crawl.handler(parse)
    async with at_work(crawl, run.url) as (_, frontier):
        await permit(frontier, True)
        await until(lambda: _is("restart this worker" in caplog.text))
    assert crawl.fetching.allow_private is False


async def test_what_a_worker_was_started_with_holds_until_somebody_changes_it(site, run, new_crawl, soon):
    crawl = new_crawl(fetching=FetchOptions(obey_robots=False, allow_private=True))
    crawl.handler(parse)
    async with await Frontier.open(run.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await permit(frontier, False)
    async with at_work(crawl, run.url) as (worker, frontier):
        await frontier.enqueue(site.at("/status/200", "127.0.0.1"))
        await until(lambda: _done(frontier, 1))
        assert worker.crawl.fetching.allow_private


async def _done(frontier, count):
    return (await frontier.admin.stats()).done == count


async def test_hops_of_robots_txt_keep_the_delay_of_now():
    delay, asked = 0.0, []

    async def get(url):
        asked.append(asyncio.get_running_loop().time())
        return RobotsResponse(200)

    hops = RedirectPacer(get, lambda: delay)
    follow = hops.trail()
    await follow("http://a.example/robots.txt")
    delay = 0.2
    await follow("http://b.example/1")
    await follow("http://b.example/2")
    assert asked[2] - asked[1] >= 0.19


async def test_a_worker_keeps_the_window_of_another_delay(run, new_crawl, soon):
    crawl = new_crawl(politeness=Politeness(delay=0, concurrency=8))
    crawl.handler(parse)
    async with at_work(crawl, run.url) as (worker, frontier):
        await frontier.admin.set_politeness(Politeness(delay=0.5))
        await until(lambda: _is(worker._starts._moment == 0.1))
