"""Tasks on a real server, and workers in this process."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from silkline import Crawl, Frontier, Tasks, Worker, WorkerOptions

OPTIONS = WorkerOptions(concurrency=16, lease=2.0, drain=5.0)


@pytest.fixture
async def app(valkey, crawl):
    async with Tasks(crawl, valkey.url) as tasks:
        yield tasks


async def until(holds):
    """Wait for something that another task of this process does."""
    while not holds():  # noqa: ASYNC110 - a count in a worker
        await asyncio.sleep(0.01)


@asynccontextmanager
async def working(crawl_or_tasks, url, options=OPTIONS):
    """Run a worker until the end of the block."""
    crawl = Crawl.of_tasks(crawl_or_tasks) if isinstance(crawl_or_tasks, Tasks) else crawl_or_tasks
    async with await Frontier.open(url, crawl=crawl.name, lease=options.lease, **crawl.tasks.arguments) as frontier:
        worker = Worker(crawl, frontier, options=options, forever=True)
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await running


@pytest.fixture
def work(valkey):
    return lambda tasks, options=OPTIONS: working(tasks, valkey.url, options)
