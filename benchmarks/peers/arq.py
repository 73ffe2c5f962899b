"""arq: ``enqueue_job`` and its worker in burst mode, the URL as the job id (arq deduplicates by it). Context only.

The worker has no poll delay and 100 jobs at a time: the defaults (0.5 s, 100 jobs per poll) would limit it to 200 jobs per
second. For calls, its worker looks for jobs and its caller for the result every 0.5 s, as by default; with the option ``polled``, every
millisecond, which costs CPU time while nothing is to be done.
"""

import asyncio
import logging

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from arq.worker import Worker

from benchmarks.peers.jobs import visit_async
from benchmarks.sides import FEW, LOOK_EVERY, POLLED, Stopwatch, Task, answer, read_task, worker_process
from benchmarks.urls import batches

CONCURRENCY = 50
BY_DEFAULT = 0.5


async def enqueue(pool: ArqRedis, urls: list[str]) -> None:
    """Enqueue *urls* with CONCURRENCY calls at the same time."""
    for part in batches(urls, CONCURRENCY):
        await asyncio.gather(*(pool.enqueue_job("visit_async", url, _job_id=url) for url in part))


async def work(pool: ArqRedis) -> None:
    """Run all queued jobs, then return."""
    worker = Worker([visit_async], redis_pool=pool, burst=True, handle_signals=False, max_jobs=100, poll_delay=0)
    await worker.async_run()
    assert worker.jobs_failed == 0


async def call_all(pool: ArqRedis, urls: list[str], look_every: float) -> None:
    """Call a job for each URL, and wait for its result before the next."""
    for url in urls:
        job = await pool.enqueue_job("visit_async", url)
        assert job is not None
        await job.result(poll_delay=look_every)


async def main(task: Task) -> None:
    """Time enqueueing, processing or calls; or run a worker."""
    logging.disable(logging.INFO)
    pool = await create_pool(RedisSettings.from_dsn(task.server))
    look_every = LOOK_EVERY if task.option == POLLED else BY_DEFAULT
    if task.verb == "work":
        await Worker([visit_async], redis_pool=pool, handle_signals=False, poll_delay=look_every).async_run()
        return
    if task.verb == "call":
        watch = Stopwatch(task.server)
        with worker_process("benchmarks.peers.arq", task):
            await call_all(pool, task.warm_up if task.option == POLLED else task.warm_up[:FEW], look_every)
            with watch:
                await call_all(pool, task.urls, look_every)
        await pool.aclose()
        answer(len(task.urls), watch, "arq")
        return
    await enqueue(pool, task.warm_up)
    await pool.flushall()
    watch = Stopwatch(task.server)
    if task.verb == "process":
        await enqueue(pool, task.urls)
        with watch:
            await work(pool)
        assert await pool.zcard(pool.default_queue_name) == 0
    else:
        with watch:
            await enqueue(pool, task.urls)
        assert await pool.zcard(pool.default_queue_name) == len(task.urls)
    await pool.aclose()
    answer(len(task.urls), watch, "arq")


if __name__ == "__main__":
    asyncio.run(main(read_task()))
