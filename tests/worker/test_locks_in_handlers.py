"""Locks, semaphores and limiters in handlers and tasks, on the connection of the worker."""

from __future__ import annotations

import asyncio
import time


class Inside:
    """Counts who is in a block at the same time."""

    def __init__(self):
        self.now, self.most, self.entered = 0, 0, 0

    def __enter__(self):
        self.now, self.entered = self.now + 1, self.entered + 1
        self.most = max(self.most, self.now)

    def __exit__(self, *_):
        self.now -= 1


async def test_handlers_and_tasks_use_locks_on_the_connection_of_their_worker(serve, run, new_crawl):
    site = await serve({"/": lambda _: "".join(f"<a href=/{n}>x</a>" for n in range(8)), "/*": lambda _: "page"})
    crawl = new_crawl(site.url)
    locked, placed, threads, frontiers, refused = Inside(), Inside(), Inside(), set(), []

    @crawl.handler
    async def listing(page):
        for link in page.css("a"):
            yield page.follow(link, product)

    @crawl.handler
    async def product(page):
        frontier = await crawl.frontier()
        frontiers.add(frontier)
        async with frontier.semaphore("database", 2):
            with placed:
                await asyncio.sleep(0.02)
        refused.append(not await frontier.limiter("api", rate="1/d", burst=3).try_acquire())
        yield report.request(number=int(page.url.rpartition("/")[2]))
        yield write.request(number=int(page.url.rpartition("/")[2]))

    @crawl.task
    async def report(number: int) -> None:
        frontier = await crawl.frontier()
        frontiers.add(frontier)
        async with frontier.lock("report", ttl=30):
            with locked:
                await asyncio.sleep(0.02)

    @crawl.task
    def write(number: int) -> None:
        with crawl.sync_frontier().lock("file", ttl=30), threads:
            time.sleep(0.02)

    done = await run(crawl)
    assert done.stats.done == 1 + 8 * 3
    assert (placed.entered, locked.entered, threads.entered) == (8, 8, 8)
    assert (placed.most, locked.most, threads.most) == (2, 1, 1)
    assert refused.count(False) == 3, "a burst of three lets three start"
    assert frontiers == {done.worker._frontier}
