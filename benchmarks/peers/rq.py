"""RQ: ``Queue.enqueue`` (or ``enqueue_many`` with the option ``bulk``) and the burst worker that runs jobs in its own process.

``SimpleWorker`` does not fork per job: RQ's fastest worker. RQ has no deduplication and no hosts.
"""

import logging

from redis import Redis
from rq import Queue, SimpleWorker

from benchmarks.peers.jobs import visit
from benchmarks.sides import Task, answer, read_task, seconds_of
from benchmarks.urls import batches


def enqueue(queue: Queue, urls: list[str], *, bulk: bool) -> None:
    """Put *urls* in, one call each or 1,000 a call."""
    if not bulk:
        for url in urls:
            queue.enqueue(visit, url)
        return
    for part in batches(urls, 1_000):
        queue.enqueue_many([Queue.prepare_data(visit, (url,)) for url in part])


def work(queue: Queue) -> None:
    """Run everything that waits, then return."""
    SimpleWorker([queue], connection=queue.connection).work(burst=True, logging_level="WARNING")


def main(task: Task) -> None:
    """Time putting in, or working off."""
    logging.disable(logging.INFO)
    queue = Queue("visits", connection=Redis.from_url(task.server))
    bulk = task.option == "bulk"
    enqueue(queue, task.warm_up, bulk=bulk)
    queue.empty()
    seconds = seconds_of(lambda: enqueue(queue, task.urls, bulk=bulk or task.verb == "process"))
    assert queue.count == len(task.urls)
    if task.verb == "process":
        seconds = seconds_of(lambda: work(queue))
        assert queue.count == 0
    answer(len(task.urls), seconds, "rq", "redis", "hiredis")


if __name__ == "__main__":
    main(read_task())
