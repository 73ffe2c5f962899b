"""The queues of scrapy-redis: as values of SCHEDULER_QUEUE_CLASS, as ``scheduler.queue``, and alone.

Inside a spider, the frontier is the queue. The setting only chooses the order in which the frontier serves requests, and
``scheduler.queue`` is a `FrontierQueue`. A queue that a program creates itself, with a redis-py client and a key, is a list or a
sorted set without leases.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Protocol

from scrapy import Request, Spider

from silkline.errors import SilklineError
from silkline.frontier.store.settings import QueueOrder
from silkline.scrapy import picklecompat
from silkline.scrapy.convert.requests import check_storable, from_dict, to_core, to_scrapy
from silkline.scrapy.migrate.entries import read_entry, write_entry


class Queue:
    """Requests in one Redis key, for a program outside the crawl. `Base` of scrapy-redis.

    A popped request is no longer in Redis: if the program dies, the request is lost. A spider does not read the key; ``silkline
    import scrapy-redis`` brings the requests into the crawl. *server* is a redis-py client, *key* may contain ``%(spider)s``, and
    the callbacks of requests are methods of *spider*. Requests are stored as msgpack, and the pickles of scrapy-redis are read
    without pickle. A *serializer* has ``dumps`` and ``loads`` for the dict of a request.
    """

    order: ClassVar[QueueOrder] = "fifo"
    by_priority: ClassVar[bool] = True

    def __init__(self, server: Any, spider: Spider, key: str, serializer: Any = None) -> None:
        serializer = picklecompat if serializer is None else serializer
        for name in ("loads", "dumps"):
            if not hasattr(serializer, name):
                raise TypeError(f"the serializer {serializer!r} has no function {name!r}")
        self.server = server
        self.spider = spider
        self.key = key % {"spider": spider.name}
        self.serializer = serializer

    def _encode_request(self, request: Request) -> Any:
        if self.serializer is not picklecompat:
            return self.serializer.dumps(request.to_dict(spider=self.spider))
        stored = to_core(request, self.spider)
        check_storable(stored)
        return write_entry(stored)

    def _decode_request(self, encoded_request: Any) -> Request:
        """Return the stored request. Raises `RequestError` if it cannot be read, or if the spider has no such callback."""
        if self.serializer is not picklecompat:
            return to_scrapy(from_dict(self.serializer.loads(encoded_request)), self.spider)
        return to_scrapy(read_entry(encoded_request), self.spider)

    def __len__(self) -> int:
        """Return the number of requests in the key."""
        raise NotImplementedError

    def push(self, request: Request) -> None:
        """Store a request."""
        raise NotImplementedError

    def pop(self, timeout: float = 0) -> Request | None:
        """Remove a request and return it; None if there is none within *timeout* seconds."""
        raise NotImplementedError

    def clear(self) -> None:
        """Delete the key."""
        self.server.delete(self.key)


class PriorityQueue(Queue):
    """The highest priority first. In the frontier, requests of one priority are first in, first out; alone, in the order of their bytes."""

    def __len__(self) -> int:
        return int(self.server.zcard(self.key))

    def push(self, request: Request) -> None:
        self.server.zadd(self.key, {self._encode_request(request): -request.priority})

    def pop(self, timeout: float = 0) -> Request | None:
        if timeout > 0:
            found = self.server.bzpopmin(self.key, timeout)
            return self._decode_request(found[1]) if found else None
        members = self.server.zpopmin(self.key)
        return self._decode_request(members[0][0]) if members else None


class FifoQueue(Queue):
    """First in, first out, regardless of priority."""

    by_priority = False

    def __len__(self) -> int:
        return int(self.server.llen(self.key))

    def push(self, request: Request) -> None:
        self.server.lpush(self.key, self._encode_request(request))

    def pop(self, timeout: float = 0) -> Request | None:
        if timeout > 0:
            found = self.server.brpop(self.key, timeout)
            return self._decode_request(found[1]) if found else None
        data = self.server.rpop(self.key)
        return None if data is None else self._decode_request(data)


class LifoQueue(FifoQueue):
    """Last in, first out, regardless of priority."""

    order = "lifo"

    def pop(self, timeout: float = 0) -> Request | None:
        if timeout > 0:
            found = self.server.blpop(self.key, timeout)
            return self._decode_request(found[1]) if found else None
        data = self.server.lpop(self.key)
        return None if data is None else self._decode_request(data)


Base = Queue
"""The base class of custom queues in scrapy-redis."""
SpiderPriorityQueue = PriorityQueue
SpiderQueue = FifoQueue
SpiderStack = LifoQueue


class QueueScheduler(Protocol):
    """What a queue needs of its scheduler."""

    def count_waiting(self) -> int: ...
    def push(self, request: Request) -> None: ...


class FrontierQueue:
    """The waiting requests of a crawl: ``scheduler.queue``, for code written for the queues of scrapy-redis."""

    def __init__(self, scheduler: QueueScheduler) -> None:
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
