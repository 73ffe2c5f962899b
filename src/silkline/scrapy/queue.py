"""The names for SCHEDULER_QUEUE_CLASS. The queue itself is the frontier's; the class says in which order it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

from scrapy import Request

from silkline.core.errors import SilklineError
from silkline.frontier.settings import Order

if TYPE_CHECKING:
    from silkline.scrapy.scheduler import Scheduler


class Queue:
    """What waits in a crawl, as ``scheduler.queue`` gives it to code that knows the queues of scrapy-redis."""

    order: ClassVar[Order] = "fifo"
    by_priority: ClassVar[bool] = True

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def __len__(self) -> int:
        """How many requests wait, for all workers together. Asks the server, and waits for its answer."""
        return self._scheduler.count_waiting()

    def push(self, request: Request) -> None:
        """Store a request, soon, whether it was seen or not."""
        self._scheduler.push(request)

    def pop(self, timeout: float = 0) -> NoReturn:  # noqa: ARG002 - as ever
        """Refuse: a request that leaves the queue without a lease would be lost with the process."""
        raise SilklineError(
            "requests cannot be popped: they are leased until their pages are through, which the scheduler's"
            " next_request() sees to. To read what waits, open the crawl with silkline.SyncFrontier"
        )

    def clear(self) -> NoReturn:
        """Refuse: what waits in a crawl and what it has seen go together."""
        raise SilklineError(
            "a queue cannot be cleared alone: its requests would count as seen. The scheduler's flush() removes the"
            " crawl once the spider has closed, SCHEDULER_FLUSH_ON_START=True when the next one opens"
        )


class PriorityQueue(Queue):
    """The highest priority first; of the same, the one that came first."""


class FifoQueue(Queue):
    """The one that came first, whatever its priority."""

    by_priority = False


class LifoQueue(Queue):
    """The one that came last, whatever its priority."""

    order = "lifo"
    by_priority = False


SpiderPriorityQueue = PriorityQueue
SpiderQueue = FifoQueue
SpiderStack = LifoQueue
