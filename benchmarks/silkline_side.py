"""Silkline's side of the comparisons: the public frontier, as users call it.

Option ``async`` uses ``Frontier`` instead of ``SyncFrontier``. Option ``tell`` repeats what twenty workers report in five
seconds (status, history and response counts) and what a monitor reads in that time.
"""

import asyncio

from benchmarks.sides import Stopwatch, Task, answer, read_task
from benchmarks.urls import batches
from silkline import Admission, Complete, Frontier, Politeness, SyncFrontier
from silkline.frontier.verbs.history import Counts
from silkline.frontier.verbs.hosts import StatusCounts
from silkline.ops.crawl_metrics import crawl_families
from silkline.ops.prometheus import render
from silkline.runtime.counters import MOST_REPORTED_HOSTS
from silkline.runtime.presence import levels_of

ENQUEUE_BATCH = 1_000
CLAIM_BATCH = 100
WORKERS, TOLD = 20, 20
"""Number of workers that report, and how often. Each reports the maximum number of hosts."""
POLITENESS = Politeness(delay=0, concurrency=8)
"""No delay and eight requests at a time per host, as Scrapy allows per domain by default."""


def enqueue(frontier: SyncFrontier, parts: list[list[str]]) -> None:
    """Enqueue *parts*, one call each."""
    for part in parts:
        frontier.enqueue(part)


def process(frontier: SyncFrontier) -> int:
    """Claim and complete until nothing is left; return the number of requests."""
    count = 0
    while leases := frontier.claim(CLAIM_BATCH):
        for lease in leases:
            assert lease.url
        frontier.settle([(lease, Complete()) for lease in leases])
        count += len(leases)
    return count


def main(task: Task) -> None:
    """Run the task with the synchronous frontier."""
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
    """Enqueue *parts*, one call each."""
    for part in parts:
        await frontier.enqueue(part)


async def process_async(frontier: Frontier) -> int:
    """Claim and complete until nothing is left; return the number of requests."""
    count = 0
    while leases := await frontier.claim(CLAIM_BATCH):
        for lease in leases:
            assert lease.url
        await frontier.settle([(lease, Complete()) for lease in leases])
        count += len(leases)
    return count


async def tell(frontier: Frontier, rounds: int) -> int:
    """Repeat the reports of twenty workers and one Prometheus scrape; return the number of reports."""
    counts = Counts(pages=300, bytes=10**7, fetched=300, status_2xx=290)
    answers = {
        f"h{number}.example": StatusCounts(status_2xx=290, status_5xx=10, last=200)
        for number in range(MOST_REPORTED_HOSTS)
    }
    info = {"pid": 1, "urls": ["https://example.com/some/page?with=query"] * 20}
    for _ in range(rounds):
        render(await crawl_families(frontier))
        for number in range(WORKERS):
            worker = f"host:{number}"
            await frontier.internal.join(worker, info=info)
            await frontier.internal.ordered(worker)
            levels = None if number else levels_of(await frontier.admin.stats())
            await frontier.internal.add_history(counts, levels)
            await frontier.internal.add_answers(answers)
    return rounds * WORKERS


async def main_async(task: Task) -> None:
    """Run the task with the asynchronous frontier."""
    async with await Frontier.open(task.server, crawl="warm", politeness=POLITENESS) as frontier:
        await enqueue_async(frontier, [task.warm_up])
        await process_async(frontier)
    parts, watch = batches(task.urls, ENQUEUE_BATCH), Stopwatch(task.server)
    async with await Frontier.open(task.server, crawl="bench", politeness=POLITENESS) as frontier:
        if task.verb == "process":
            await enqueue_async(frontier, parts)
            if task.option == "tell":
                with watch:
                    count = await tell(frontier, TOLD)
                answer(count, watch, "silkline")
                return
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
    if given.option in ("async", "tell"):
        asyncio.run(main_async(given))
    else:
        main(given)
