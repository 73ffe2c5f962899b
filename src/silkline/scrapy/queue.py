"""The names for SCHEDULER_QUEUE_CLASS. The queue itself is the frontier's; the class says in which order it serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from silkline.frontier.settings import Order


class Queue:
    """What waits in a crawl, as ``scheduler.queue`` shows it: its length."""

    order: ClassVar[Order] = "fifo"
    by_priority: ClassVar[bool] = True

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count()


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
