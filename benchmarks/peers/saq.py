"""SAQ: ``Queue.enqueue`` and its worker in burst mode. It deduplicates by job key, so the URL is the key. Context only.

A caller looks for its result every 0.5 s, as by default; with the option ``polled``, every millisecond. `Job.refresh` with
a time is notified, but waits for nothing if the job ends before it has subscribed, as short jobs do.
"""

import asyncio
import logging
import time
from contextlib import suppress

from saq import Queue, Worker
from saq.queue import JobError
from saq.types import Context

from benchmarks.peers.jobs import visit_async
from benchmarks.sides import FEW, LOOK_EVERY, POLLED, Stopwatch, Task, answer, read_task, worker_process
from benchmarks.urls import batches

CONCURRENCY = 50
BY_DEFAULT = 0.5


async def enqueue(queue: Queue, urls: list[str]) -> None:
    """Enqueue *urls* with CONCURRENCY calls at the same time."""
    for part in batches(urls, CONCURRENCY):
        await asyncio.gather(*(queue.enqueue("visit_async", key=url, url=url) for url in part))


async def work(queue: Queue, count: int) -> float:
    """Run *count* jobs; return the seconds until the last has ended, without the shutdown of the worker."""
    ended = 0
    last = time.perf_counter()

    async def count_one(_: Context) -> None:
        nonlocal ended, last
        ended += 1
        last = time.perf_counter()

    worker = Worker(
        queue, [visit_async], concurrency=CONCURRENCY, burst=True, dequeue_timeout=0.2, after_process=count_one
    )
    start = time.perf_counter()
    await worker.start()
    assert ended == count
    return last - start


async def call_all(queue: Queue, urls: list[str], look_every: float) -> None:
    """Call a job for each URL, and wait for its result before the next."""
    for url in urls:
        await queue.apply("visit_async", url=url, poll_interval=look_every)


async def main(task: Task) -> None:
    """Time enqueueing, processing or calls; or run a worker."""
    logging.disable(logging.INFO)
    queue = Queue.from_url(task.server)
    await queue.connect()
    if task.verb == "work":
        await Worker(queue, [visit_async], concurrency=CONCURRENCY).start()
        return
    if task.verb == "call":
        watch = Stopwatch(task.server)
        look_every = LOOK_EVERY if task.option == POLLED else BY_DEFAULT
        with worker_process("benchmarks.peers.saq", task):
            with suppress(JobError):  # a worker that starts may sweep the first job that it takes
                await call_all(queue, task.warm_up[:1], look_every)
            await call_all(queue, task.warm_up if task.option == POLLED else task.warm_up[:FEW], look_every)
            with watch:
                await call_all(queue, task.urls, look_every)
        await queue.disconnect()
        answer(len(task.urls), watch, "saq")
        return
    await enqueue(queue, task.warm_up)
    await queue.redis.flushall()  # type: ignore[attr-defined]
    watch = Stopwatch(task.server)
    if task.verb == "process":
        await enqueue(queue, task.urls)
        with watch:
            seconds = await work(queue, len(task.urls))
        watch.seconds = seconds
        assert await queue.count("incomplete") == 0
    else:
        with watch:
            await enqueue(queue, task.urls)
        assert await queue.count("queued") == len(task.urls)
    await queue.disconnect()
    answer(len(task.urls), watch, "saq")


if __name__ == "__main__":
    asyncio.run(main(read_task()))
