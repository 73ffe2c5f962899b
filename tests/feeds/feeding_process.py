"""Feeds a crawl until the feed is empty, and prints by how many bytes its memory has grown: ``feeding_process.py SERVER CRAWL FEED``."""

from __future__ import annotations

import asyncio
import resource
import sys

from silkline import Frontier
from silkline.worker.feeds.feeder import Feeding
from silkline.worker.feeds.file_feed import FileFeed
from silkline.worker.feeds.redis_key import RedisFeed


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def feed(server: str, crawl: str, name: str) -> None:
    async with await Frontier.open(server, crawl=crawl) as frontier:
        await frontier.enqueue(f"https://warm.example/{number}" for number in range(4000))
        key = name.removeprefix("redis:")
        source = RedisFeed.open(key, frontier) if name != key else FileFeed(name, frontier)
        before = peak()
        feeding = Feeding(frontier, [source], ["page"])
        running = asyncio.create_task(feeding.run())
        while not await source.ended():  # noqa: ASYNC110 - as a worker asks
            await asyncio.sleep(0.01)
        feeding.stop()
        await running
        print(peak() - before)


if __name__ == "__main__":
    asyncio.run(feed(*sys.argv[1:]))
