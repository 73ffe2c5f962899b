"""Silkline's side of the races: the public frontier, as its users call it.

Option ``async`` uses ``Frontier`` instead of ``SyncFrontier``.
"""

import asyncio
import time

from benchmarks.sides import Task, answer, read_task
from benchmarks.urls import batches
from silkline import Admission, Complete, Frontier, Politeness, SyncFrontier

ENQUEUE_BATCH = 1_000
CLAIM_BATCH = 100
POLITENESS = Politeness(delay=0, concurrency=8)
"""No delay, and eight at a time per host: what Scrapy grants a domain by default."""


def enqueue(frontier: SyncFrontier, parts: list[list[str]]) -> None:
    """Put *parts* in, a call each."""
    for part in parts:
        frontier.enqueue(part)


def process(frontier: SyncFrontier) -> int:
    """Claim and complete until nothing is left; how many there were."""
    count = 0
    while leases := frontier.claim(CLAIM_BATCH):
        for lease in leases:
            assert lease.url
        frontier.settle([(lease, Complete()) for lease in leases])
        count += len(leases)
    return count


def main(task: Task) -> None:
    """The task with the synchronous frontier."""
    with SyncFrontier.open(task.server, crawl="warm", politeness=POLITENESS) as frontier:
        enqueue(frontier, [task.warm_up])
        process(frontier)
    parts = batches(task.urls, ENQUEUE_BATCH)
    with SyncFrontier.open(task.server, crawl="bench", politeness=POLITENESS) as frontier:
        start = time.perf_counter()
        enqueue(frontier, parts)
        seconds = time.perf_counter() - start
        if task.verb == "process":
            start = time.perf_counter()
            assert process(frontier) == len(task.urls)
            seconds = time.perf_counter() - start
        else:
            assert frontier.enqueue(task.urls[:10]) == [Admission.SEEN] * 10
    answer(len(task.urls), seconds, "silkline", "redis", "hiredis")


async def enqueue_async(frontier: Frontier, parts: list[list[str]]) -> None:
    """Put *parts* in, a call each."""
    for part in parts:
        await frontier.enqueue(part)


async def process_async(frontier: Frontier) -> int:
    """Claim and complete until nothing is left; how many there were."""
    count = 0
    while leases := await frontier.claim(CLAIM_BATCH):
        for lease in leases:
            assert lease.url
        await frontier.settle([(lease, Complete()) for lease in leases])
        count += len(leases)
    return count


async def main_async(task: Task) -> None:
    """The task with the asynchronous frontier."""
    async with await Frontier.open(task.server, crawl="warm", politeness=POLITENESS) as frontier:
        await enqueue_async(frontier, [task.warm_up])
        await process_async(frontier)
    parts = batches(task.urls, ENQUEUE_BATCH)
    async with await Frontier.open(task.server, crawl="bench", politeness=POLITENESS) as frontier:
        start = time.perf_counter()
        await enqueue_async(frontier, parts)
        seconds = time.perf_counter() - start
        if task.verb == "process":
            start = time.perf_counter()
            assert await process_async(frontier) == len(task.urls)
            seconds = time.perf_counter() - start
    answer(len(task.urls), seconds, "silkline", "redis", "hiredis")


if __name__ == "__main__":
    given = read_task()
    if given.option == "async":
        asyncio.run(main_async(given))
    else:
        main(given)
