"""Values of SCHEDULER_QUEUE_CLASS. The frontier is the queue; the class chooses the order in which it serves requests."""

from __future__ import annotations

from typing import ClassVar, NoReturn, Protocol

from scrapy import Request

from silkline.errors import SilklineError
from silkline.frontier.store.settings import Order


class QueueScheduler(Protocol):
    """What a queue needs of its scheduler."""

    def count_waiting(self) -> int: ...
    def push(self, request: Request) -> None: ...


class Queue:
    """The waiting requests of a crawl: ``scheduler.queue``, for code written for the queues of scrapy-redis."""

    order: ClassVar[Order] = "fifo"
    by_priority: ClassVar[bool] = True

    def __init__(self, scheduler: QueueScheduler, *further: object, **named: object) -> None:
        if further or named:
            raise SilklineError(
                f"{type(self).__name__}(server, spider, key) is not supported: the frontier is the queue. Inside a spider, use"
                " crawler.engine's scheduler.queue; to push requests from another program, use silkline.SyncFrontier or push"
                " messages to the spider's redis_key"
            )
        self._scheduler = scheduler

    def __len__(self) -> int:
        """Return the number of requests that wait in the crawl. Blocks until the server replies."""
        return self._scheduler.count_waiting()

    def push(self, request: Request) -> None:
        """Store a request soon, even if it was seen before."""
        self._scheduler.push(request)

    def pop(self, timeout: float = 0) -> NoReturn:  # noqa: ARG002 - the signature of scrapy-redis
        """Raise `SilklineError`: a request that leaves the queue without a lease would be lost with its process."""
        raise SilklineError(
            "requests cannot be popped: each one is leased until its page is processed. Use the scheduler's"
            " next_request(), or open the crawl with silkline.SyncFrontier to read what waits"
        )

    def clear(self) -> NoReturn:
        """Raise `SilklineError`: the waiting requests of a crawl and its seen filter belong together."""
        raise SilklineError(
            "a queue cannot be cleared alone: its requests would still count as seen. To remove the whole crawl, call the"
            " scheduler's flush() after the spider has closed, or set SCHEDULER_FLUSH_ON_START=True for the next run"
        )


class PriorityQueue(Queue):
    """The highest priority first; within a priority, first in, first out."""


class FifoQueue(Queue):
    """First in, first out, regardless of priority."""

    by_priority = False


class LifoQueue(Queue):
    """Last in, first out, regardless of priority."""

    order = "lifo"
    by_priority = False


Base = Queue
"""The base class of custom queues in scrapy-redis."""
SpiderPriorityQueue = PriorityQueue
SpiderQueue = FifoQueue
SpiderStack = LifoQueue
