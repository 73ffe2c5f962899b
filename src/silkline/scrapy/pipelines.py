"""RedisPipeline: items into a list on the server."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.misc import load_object
from scrapy.utils.serialize import ScrapyJSONEncoder
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from silkline.scrapy import connection
from silkline.scrapy.bridge import find_reactor

log = logging.getLogger(__name__)

PIPELINE_KEY = "%(spider)s:items"
MOST_AT_ONCE = 1000

default_serialize: Callable[[Any], Any] = ScrapyJSONEncoder().encode


class Waiting(NamedTuple):
    """An item that is to be stored."""

    key: str
    data: Any
    stored: Deferred[None]


class RedisPipeline:
    """Appends items to a list on the server, as JSON.

    An item is through when it is stored. What comes in while some are on their way is sent together, from a thread, so
    that neither the reactor nor the other items wait for each round trip. While the server is away items wait.
    """

    def __init__(
        self, server: Any, key: str = PIPELINE_KEY, serialize_func: Callable[[Any], Any] = default_serialize
    ) -> None:
        self.server = server
        self.key = key
        self.serialize = serialize_func
        self.crawler: Crawler | None = None
        self._waiting: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._on_reactor: Callable[[Callable[[], object]], object]

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        options: dict[str, Any] = {"server": connection.from_settings(settings)}
        if key := settings.get("REDIS_ITEMS_KEY"):
            options["key"] = key
        if path := settings.get("REDIS_ITEMS_SERIALIZER"):
            options["serialize_func"] = load_object(path)
        return cls(**options)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        pipeline = cls.from_settings(crawler.settings)
        pipeline.crawler = crawler
        return pipeline

    async def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        """Store *item*, and wait until it is."""
        spider = spider or (self.crawler.spider if self.crawler else None)
        if type(self)._process_item is not RedisPipeline._process_item:  # noqa: SLF001 - of our own subclass
            return await _in_thread(lambda: self._process_item(item, spider))
        stored: Deferred[None] = Deferred()
        self._waiting.put(Waiting(self.item_key(item, spider), self.serialize(item), stored))
        if self._thread is None:
            self._start()
        await maybe_deferred_to_future(stored)
        return item

    def _process_item(self, item: Any, spider: Any) -> Any:
        """Store one item and wait for it. A subclass that has its own is called in a thread, once per item."""
        self.server.rpush(self.item_key(item, spider), self.serialize(item))
        return item

    def item_key(self, item: Any, spider: Any) -> str:  # noqa: ARG002 - for those who choose by the item
        """The key of the list for an item."""
        return self.key % {"spider": spider.name}

    def close_spider(self, spider: Spider | None = None) -> None:  # noqa: ARG002 - older versions of Scrapy pass it
        self._waiting.put(None)

    # ── together ──

    def _start(self) -> None:
        self._on_reactor = find_reactor()
        self._thread = threading.Thread(target=self._run, name="silkline-items", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """In the thread: store what waits, until there is no more."""
        while True:
            batch = [self._waiting.get()]
            while len(batch) < MOST_AT_ONCE and not self._waiting.empty():
                batch.append(self._waiting.get())
            items = [one for one in batch if one is not None]
            for key in dict.fromkeys(one.key for one in items):
                self._push(key, [one for one in items if one.key == key])
            if None in batch:
                return

    def _push(self, key: str, batch: list[Waiting]) -> None:
        values = [one.data for one in batch]
        failure: Exception | None = None
        try:
            connection.persistently(lambda: self.server.rpush(key, *values), _complain)
        except Exception as error:  # noqa: BLE001 - told to each item
            failure = error

        def tell() -> None:
            for one in batch:
                if failure is None:
                    one.stored.callback(None)
                else:
                    one.stored.errback(failure)

        self._on_reactor(tell)


async def _in_thread(act: Callable[[], Any]) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return await deferToThread(act)
    return await asyncio.to_thread(act)


def _complain(error: Exception) -> None:
    log.warning("Items wait for Redis, which is away: %s", error)
