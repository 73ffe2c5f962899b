"""RQ: ``Queue.enqueue`` (or ``enqueue_many`` with the option ``bulk``) and the burst worker that runs jobs in its own process.

``SimpleWorker`` does not fork per job: RQ's fastest worker. RQ has no deduplication and no hosts. It cannot wait for a result
without polling: calls look for it every millisecond.
"""

import logging
import time

from redis import Redis
from rq import Queue, SimpleWorker
from rq.job import JobStatus

from benchmarks.peers.jobs import visit
from benchmarks.sides import Stopwatch, Task, answer, read_task, worker_process
from benchmarks.urls import batches


def enqueue(queue: Queue, urls: list[str], *, bulk: bool) -> None:
    """Enqueue *urls*, one or 1,000 per call."""
    if not bulk:
        for url in urls:
            queue.enqueue(visit, url)
        return
    for part in batches(urls, 1_000):
        queue.enqueue_many([Queue.prepare_data(visit, (url,)) for url in part])


def work(queue: Queue) -> None:
    """Run all queued jobs, then return."""
    SimpleWorker([queue], connection=queue.connection).work(burst=True, logging_level="WARNING")


def call_all(queue: Queue, urls: list[str]) -> None:
    """Call a job for each URL, and wait for its result before the next."""
    for url in urls:
        job = queue.enqueue(visit, url)
        while job.get_status(refresh=True) != JobStatus.FINISHED:
            time.sleep(0.001)


def main(task: Task) -> None:
    """Time enqueueing, processing or calls; or run a worker."""
    logging.disable(logging.INFO)
    queue = Queue("visits", connection=Redis.from_url(task.server))
    if task.verb == "work":
        SimpleWorker([queue], connection=queue.connection).work(logging_level="WARNING")
        return
    if task.verb == "call":
        watch = Stopwatch(task.server)
        with worker_process("benchmarks.peers.rq", task.server):
            call_all(queue, task.warm_up)
            with watch:
                call_all(queue, task.urls)
        answer(len(task.urls), watch, "rq")
        return
    bulk = task.option == "bulk"
    enqueue(queue, task.warm_up, bulk=bulk)
    queue.empty()
    watch = Stopwatch(task.server)
    if task.verb == "process":
        enqueue(queue, task.urls, bulk=True)
        with watch:
            work(queue)
        assert queue.count == 0
    else:
        with watch:
            enqueue(queue, task.urls, bulk=bulk)
        assert queue.count == len(task.urls)
    answer(len(task.urls), watch, "rq")


if __name__ == "__main__":
    main(read_task())
