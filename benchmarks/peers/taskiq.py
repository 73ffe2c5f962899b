"""taskiq: ``kiq`` and its receiver with ``ListQueueBroker`` and its result backend of taskiq-redis, 50 tasks at once. Context only.

taskiq has no deduplication, and no burst mode: the receiver is cancelled when the last task has ended. A caller looks for its result
every 0.2 s, as by default; with the option ``polled``, every millisecond.
"""

import asyncio
import logging
import time

from redis.asyncio import Redis
from taskiq.api import run_receiver_task
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend

from benchmarks.sides import FEW, LOOK_EVERY, POLLED, Stopwatch, Task, answer, read_task, worker_process
from benchmarks.urls import batches

CONCURRENCY = 50
BY_DEFAULT = 0.2
QUEUE = "taskiq"

broker = ListQueueBroker("redis://unused", queue_name=QUEUE)
ended = 0
awaited = 0
last = 0.0
all_ended = asyncio.Event()


@broker.task(task_name="visit")
async def visit(url: str) -> None:  # noqa: ARG001 - the argument of the peers' jobs
    """Do nothing, so that only the queue is measured."""
    global ended, last  # noqa: PLW0603 - the receiver has no hook after each task
    ended += 1
    last = time.perf_counter()
    if ended == awaited:
        all_ended.set()


def make_broker(server: str) -> ListQueueBroker:
    """Return a broker of *server* that knows the task. A broker is bound to its server when it is made."""
    made = ListQueueBroker(server, queue_name=QUEUE).with_result_backend(
        RedisAsyncResultBackend(server, result_ex_time=3600)
    )
    made.register_task(visit.original_func, task_name="visit")
    return made


async def enqueue(made: ListQueueBroker, urls: list[str]) -> None:
    """Enqueue *urls* with CONCURRENCY calls at the same time."""
    task = made.find_task("visit")
    assert task is not None
    for part in batches(urls, CONCURRENCY):
        await asyncio.gather(*(task.kiq(url) for url in part))


async def work(made: ListQueueBroker, count: int) -> float:
    """Run *count* tasks; return the seconds until the last has ended."""
    global ended, awaited
    ended, awaited = 0, count
    start = time.perf_counter()
    receiving = asyncio.create_task(run_receiver_task(made, max_async_tasks=CONCURRENCY))
    await all_ended.wait()
    receiving.cancel()
    await asyncio.wait([receiving])
    return last - start


async def call_all(made: ListQueueBroker, urls: list[str], look_every: float) -> None:
    """Call a task for each URL, and wait for its result before the next."""
    task = made.find_task("visit")
    assert task is not None
    for url in urls:
        await (await task.kiq(url)).wait_result(check_interval=look_every, timeout=60)


async def main(task: Task) -> None:
    """Time enqueueing, processing or calls; or run a worker."""
    logging.disable(logging.INFO)
    made = make_broker(task.server)
    made.is_worker_process = task.verb == "work"
    await made.startup()
    if task.verb == "work":
        await run_receiver_task(made, max_async_tasks=CONCURRENCY)
        return
    watch = Stopwatch(task.server)
    if task.verb == "call":
        look_every = LOOK_EVERY if task.option == POLLED else BY_DEFAULT
        with worker_process("benchmarks.peers.taskiq", task):
            await call_all(made, task.warm_up if task.option == POLLED else task.warm_up[:FEW], look_every)
            with watch:
                await call_all(made, task.urls, look_every)
    else:
        redis: Redis = Redis.from_url(task.server)
        await enqueue(made, task.warm_up)
        await redis.delete(QUEUE)
        if task.verb == "process":
            await enqueue(made, task.urls)
            with watch:
                seconds = await work(made, len(task.urls))
            watch.seconds = seconds
            assert await redis.llen(QUEUE) == 0
        else:
            with watch:
                await enqueue(made, task.urls)
            assert await redis.llen(QUEUE) == len(task.urls)
        await redis.aclose()
    await made.shutdown()
    answer(len(task.urls), watch, "taskiq", "taskiq-redis")


if __name__ == "__main__":
    asyncio.run(main(read_task()))
