"""Silkline's side of the races: the public frontier, as its users call it.

Option ``async`` uses ``Frontier`` instead of ``SyncFrontier``. Option ``watched`` is the same while a fleet of twenty workers
tells what it does every five seconds, into roster and history, and a monitor is asked for its metrics every five.
"""

import asyncio
import itertools

from benchmarks.sides import Stopwatch, Task, answer, read_task
from benchmarks.urls import batches
from silkline import Admission, Complete, Frontier, Politeness, SyncFrontier
from silkline.frontier.answers import Answers
from silkline.frontier.history import Counts
from silkline.metrics.crawl import crawl_families
from silkline.metrics.text import render
from silkline.worker.presence import EVERY, levels_of

ENQUEUE_BATCH = 1_000
CLAIM_BATCH = 100
WORKERS, HOSTS = 20, 300
"""Who tells what it does, and of how many hosts each time: every page is of another one, which is the most."""
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


async def tell(url: str) -> None:
    """What twenty workers tell and one Prometheus asks, from a connection of their own."""
    counts, levels = Counts(pages=300, bytes=10**7, fetched=300, status_2xx=290), None
    answers = {f"h{number}.example": Answers(status_2xx=290, status_5xx=10, last=200) for number in range(HOSTS)}
    info = {"pid": 1, "urls": ["https://example.com/some/page?with=query"] * 20}
    async with await Frontier.open(url, crawl="bench", create=False) as frontier:
        for turn in itertools.count():
            worker = f"host:{turn % WORKERS}"
            await frontier.join(worker, info=info)
            await frontier.ordered(worker)
            if turn % WORKERS == 0:
                levels = levels_of(await frontier.stats())
                render(await crawl_families(frontier))
            await frontier.add_history(counts, levels)
            await frontier.add_answers(answers)
            await asyncio.sleep(EVERY / WORKERS)


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
                company = asyncio.create_task(tell(task.server)) if task.option == "watched" else None
                count = await process_async(frontier)
            if company:
                company.cancel()
            assert count == len(task.urls)
        else:
            with watch:
                await enqueue_async(frontier, parts)
            assert await frontier.enqueue(task.urls[:10]) == [Admission.SEEN] * 10
    answer(len(task.urls), watch, "silkline")


if __name__ == "__main__":
    given = read_task()
    if given.option in ("async", "watched"):
        asyncio.run(main_async(given))
    else:
        main(given)
