"""Real workers against a real web site."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Crawl, Frontier, Politeness, Worker
from silkline.testing import LocalSite
from silkline.worker.crawl.crawl import FetchOptions
from silkline.worker.options import WorkerOptions

OPTIONS = WorkerOptions(concurrency=16, lease=5.0, drain=5.0)


async def until(holds):
    """Wait for something that nobody can tell us of."""
    while not holds():  # noqa: ASYNC110 - a site in another thread, a count in a worker
        await asyncio.sleep(0.01)


class ListSink:
    """Keeps records in a list, and can be told to fail."""

    def __init__(self):
        self.records = []
        self.failures = []

    async def write(self, records):
        if self.failures:
            raise self.failures.pop()
        self.records += records

    async def close(self):
        pass

    @property
    def items(self):
        return [record.item for record in self.records]


class Run:
    """One crawl by one worker in this process, and what came of it."""

    def __init__(self, crawl, url):
        self.crawl = crawl
        self.url = url
        self.sink = ListSink()
        self.worker = None
        self.counters = None
        self.stats = None
        self.dead = None

    @property
    def items(self):
        return self.sink.items

    async def go(self, *, options=OPTIONS, sinks=None):
        async with await Frontier.open(self.url, crawl=self.crawl.name, **self.crawl.arguments) as frontier:
            await frontier.enqueue(await self.crawl.starts())
            self.worker = Worker(self.crawl, frontier, sinks=[self.sink] if sinks is None else sinks, options=options)
            self.counters = await self.worker.run()
            self.stats = await frontier.admin.stats()
            self.dead = await frontier.admin.dead()
        return self


@pytest.fixture
def new_crawl(crawl):
    """Makes crawls of this test's own, quick and allowed on loopback unless told otherwise."""

    def make(start=(), **settings):
        settings.setdefault("politeness", Politeness(delay=0, concurrency=8))
        settings.setdefault("retries", [0.05, 0.05, 0.05, 0.05])
        settings.setdefault("fetching", FetchOptions(allow_private=True))
        return Crawl(crawl, start, **settings)

    return make


@pytest.fixture
def run(valkey):
    async def go(crawl, **options):
        return await Run(crawl, valkey.url).go(**options)

    go.url = valkey.url
    return go


@pytest.fixture
async def serve():
    """Starts sites, and stops them at the end."""
    sites = []

    async def start(routes=None, **options):
        sites.append(LocalSite(routes or {}, **options))
        return await sites[-1].__aenter__()

    yield start
    for site in sites:
        await site.__aexit__(None, None, None)
