"""RQ: ``Queue.enqueue`` (or ``enqueue_many`` with the option ``bulk``) and the burst worker that runs jobs in its own process.

``SimpleWorker`` does not fork per job: RQ's fastest worker. RQ has no deduplication and no hosts. A caller blocks on the stream with
the results of its job. With the option ``two``, ``enqueue_many`` gets jobs with two small arguments instead of a URL.
"""

import logging

from redis import Redis
from rq import Queue, SimpleWorker

from benchmarks.peers.jobs import resize, two_arguments, visit
from benchmarks.sides import Stopwatch, Task, answer, read_task, worker_process
from benchmarks.urls import batches


def enqueue(queue: Queue, urls: list[str], option: str) -> None:
    """Enqueue *urls*, one or 1,000 per call."""
    if not option:
        for url in urls:
            queue.enqueue(visit, url)
        return
    for part in batches(urls, 1_000):
        if option == "two":
            queue.enqueue_many([Queue.prepare_data(resize, kwargs=two_arguments(url)) for url in part])
        else:
            queue.enqueue_many([Queue.prepare_data(visit, (url,)) for url in part])


def work(queue: Queue) -> None:
    """Run all queued jobs, then return."""
    SimpleWorker([queue], connection=queue.connection).work(burst=True, logging_level="WARNING")


def call_all(queue: Queue, urls: list[str]) -> None:
    """Call a job for each URL, and wait for its result before the next."""
    for url in urls:
        result = queue.enqueue(visit, url).latest_result(timeout=60)
        assert result is not None
        assert result.type == result.Type.SUCCESSFUL


def main(task: Task) -> None:
    """Time enqueueing, processing or calls; or run a worker."""
    logging.disable(logging.INFO)
    queue = Queue("visits", connection=Redis.from_url(task.server))
    if task.verb == "work":
        SimpleWorker([queue], connection=queue.connection).work(logging_level="WARNING")
        return
    if task.verb == "call":
        watch = Stopwatch(task.server)
        with worker_process("benchmarks.peers.rq", task):
            call_all(queue, task.warm_up)
            with watch:
                call_all(queue, task.urls)
        answer(len(task.urls), watch, "rq")
        return
    enqueue(queue, task.warm_up, task.option)
    queue.empty()
    watch = Stopwatch(task.server)
    if task.verb == "process":
        enqueue(queue, task.urls, "bulk")
        with watch:
            work(queue)
        assert queue.count == 0
    else:
        with watch:
            enqueue(queue, task.urls, task.option)
        assert queue.count == len(task.urls)
    answer(len(task.urls), watch, "rq")


if __name__ == "__main__":
    main(read_task())
