"""Silkline's feeds: how fast one worker moves URLs from a source to the frontier. Options: ``frontier``, ``redis``, ``txt``, ``csv``.

``frontier`` is the comparison: the same URLs as strings in memory, with ``Frontier.enqueue`` in batches as large as those of feeds.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from redis import Redis

from benchmarks.sides import Stopwatch, Task, answer, read_task
from benchmarks.silkline_side import POLITENESS
from benchmarks.urls import batches
from silkline import Frontier
from silkline.worker.feeds.feed import FeedSource
from silkline.worker.feeds.feeder import BATCH, Feeding
from silkline.worker.feeds.file_feed import FileFeed
from silkline.worker.feeds.redis_key import RedisFeed

POLL = 0.002


async def enqueue(frontier: Frontier, urls: Sequence[str]) -> None:
    """Enqueue all URLs, as a program does that has them."""
    for part in batches(list(urls), BATCH):
        await frontier.enqueue(part)


async def feed(frontier: Frontier, source: FeedSource) -> None:
    """Feed until the source is empty."""
    feeding = Feeding(frontier, [source], ["page"])
    running = asyncio.create_task(feeding.run())
    while not await source.ended():  # noqa: ASYNC110 - as a worker asks
        await asyncio.sleep(POLL)
    feeding.stop()
    await running


async def open_source(task: Task, frontier: Frontier, name: str, urls: Sequence[str]) -> FeedSource:
    """Fill a key of the server or a file with URLs, and return the feed that reads it."""
    if task.option == "redis":
        with Redis.from_url(task.server) as client:
            for part in batches(list(urls), 10_000):
                client.rpush(name, *part)
        return RedisFeed.open(name, frontier)
    return FileFeed(await asyncio.to_thread(write, Path(f"{name}.{task.option}"), urls), frontier)


def write(file: Path, urls: Sequence[str]) -> str:
    """Write a text or CSV file of URLs, and return its path."""
    head, end = ("url,priority\n", ",\n") if file.suffix == ".csv" else ("", "\n")
    file.write_text(head + "".join(f"{url}{end}" for url in urls))
    return str(file.resolve())


async def main(task: Task, folder: str) -> None:
    """Time one side; a small run comes first."""
    watch = Stopwatch(task.server)
    for name, urls in (("warm", task.warm_up), ("bench", task.urls)):
        async with await Frontier.open(task.server, crawl=name, politeness=POLITENESS) as frontier:
            if task.option == "frontier":
                with watch:
                    await enqueue(frontier, urls)
            else:
                source = await open_source(task, frontier, f"{folder}/{name}", urls)
                with watch:
                    await feed(frontier, source)
            assert (await frontier.admin.stats()).accepted == len(urls)
    answer(len(task.urls), watch, "silkline")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="silkline-feeds-") as where:
        asyncio.run(main(read_task(), where))
