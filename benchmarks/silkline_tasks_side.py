"""Silkline's side of the comparison of task queues: typed tasks, as users call them, and the worker of `silkline worker`.

With the option ``two``, a call has two small arguments instead of a URL. The worker has the event loop of `silkline worker`; what enqueues
or calls has that of `asyncio.run`, as the peers have.
"""

import asyncio
import time

from benchmarks.peers.jobs import two_arguments
from benchmarks.sides import Stopwatch, Task, answer, read_task, worker_process
from benchmarks.urls import batches
from silkline import Crawl, Tasks, WorkerOptions
from silkline.runtime.event_loop import run_async
from silkline.worker.process.process import work

ENQUEUE_BATCH = 1_000
CONCURRENCY = 100
"""As many as arq's side has."""

app = Tasks("bench")
last = 0.0


@app.task
async def visit(url: str) -> None:  # noqa: ARG001 - the argument of the peers' jobs
    """Do nothing, so that only the queue is measured."""
    global last  # noqa: PLW0603 - the time at which the last call ran
    last = time.perf_counter()


@app.task
async def resize(sku: str, size: int) -> None:
    """Do nothing."""


async def enqueue(urls: list[str], option: str) -> None:
    """Enqueue a call for each URL."""
    for part in batches(urls, ENQUEUE_BATCH):
        if option == "two":
            await resize.enqueue_many(two_arguments(url) for url in part)
        else:
            await visit.enqueue_many({"url": url} for url in part)


async def run_all(server: str) -> None:
    """Run a worker until nothing is left."""
    await work(Crawl.of_tasks(app), server, options=WorkerOptions(concurrency=CONCURRENCY))


async def call_all(urls: list[str]) -> None:
    """Call the task for each URL, and wait for its result before the next."""
    for url in urls:
        await (await visit.enqueue(url)).result()


async def main(task: Task) -> None:
    """Time enqueueing, running or calls; or run a worker. The time of a worker ends with its last call, as that of SAQ does."""
    app.redis = task.server
    watch = Stopwatch(task.server)
    if task.verb == "work":
        await work(Crawl.of_tasks(app), task.server, options=WorkerOptions(concurrency=CONCURRENCY), forever=True)
        return
    if task.verb == "call":
        async with app:
            with worker_process("benchmarks.silkline_tasks_side", task):
                await call_all(task.warm_up)
                with watch:
                    await call_all(task.urls)
        answer(len(task.urls), watch, "silkline")
        return
    async with app:
        frontier = await app.frontier()
        await enqueue(task.warm_up, task.option)
        if task.verb == "process":
            await run_all(task.server)
            await enqueue(task.urls, task.option)
            began = time.perf_counter()
            with watch:
                await run_all(task.server)
            watch.seconds = last - began
            assert (await frontier.admin.stats()).done == len(task.urls) + len(task.warm_up)
        else:
            await frontier.admin.cancel("visit")
            await frontier.admin.cancel("resize")
            with watch:
                await enqueue(task.urls, task.option)
            assert (await frontier.admin.stats()).ready == len(task.urls)
    answer(len(task.urls), watch, "silkline")


if __name__ == "__main__":
    asked = read_task()
    (run_async if asked.verb in ("process", "work") else asyncio.run)(main(asked))
