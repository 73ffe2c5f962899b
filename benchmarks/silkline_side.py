"""Silkline's side of the races: the public frontier, as its users call it.

Option ``async`` uses ``Frontier`` instead of ``SyncFrontier``.
"""

import asyncio

from benchmarks.sides import Stopwatch, Task, answer, read_task
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
    parts, watch = batches(task.urls, ENQUEUE_BATCH), Stopwatch(task.server)
    with SyncFrontier.open(task.server, crawl="bench", politeness=POLITENESS) as frontier:
        if task.verb == "process":
            enqueue(frontier, parts)
            with watch:
                count = process(frontier)
            assert count == len(task.urls)
        else:
            with watch:
                enqueue(frontier, parts)
            assert frontier.enqueue(task.urls[:10]) == [Admission.SEEN] * 10
    answer(len(task.urls), watch, "silkline")


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
    parts, watch = batches(task.urls, ENQUEUE_BATCH), Stopwatch(task.server)
    async with await Frontier.open(task.server, crawl="bench", politeness=POLITENESS) as frontier:
        if task.verb == "process":
            await enqueue_async(frontier, parts)
            with watch:
                count = await process_async(frontier)
            assert count == len(task.urls)
        else:
            with watch:
                await enqueue_async(frontier, parts)
            assert await frontier.enqueue(task.urls[:10]) == [Admission.SEEN] * 10
    answer(len(task.urls), watch, "silkline")


if __name__ == "__main__":
    given = read_task()
    if given.option == "async":
        asyncio.run(main_async(given))
    else:
        main(given)
