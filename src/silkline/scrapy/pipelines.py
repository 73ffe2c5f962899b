"""`RedisPipeline`: an item pipeline that appends items to a Redis list."""

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

from silkline.scrapy import connection, defaults
from silkline.scrapy.bridge.bridge import find_reactor
from silkline.scrapy.bridge.start_errors import reported_start_errors

log = logging.getLogger(__name__)

MAX_BATCH = 1000

default_serialize: Callable[[Any], Any] = ScrapyJSONEncoder().encode


class PendingItem(NamedTuple):
    """An item that is not stored yet."""

    key: str
    data: Any
    stored: Deferred[None]


class RedisPipeline:
    """Appends items to a Redis list, as JSON.

    `process_item` returns when the item is stored. A thread sends the items that arrive during a round trip together in
    the next one, so that the reactor does not block. While the server is unreachable, items wait.
    """

    def __init__(
        self, server: Any, key: str = defaults.PIPELINE_KEY, serialize_func: Callable[[Any], Any] = default_serialize
    ) -> None:
        self.server = server
        self.key = key
        self.serialize = serialize_func
        self.crawler: Crawler | None = None
        self._waiting: queue.SimpleQueue[PendingItem | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._on_reactor: Callable[[Callable[[], object]], object]

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Create it from the settings, as scrapy-redis does."""
        options: dict[str, Any] = {"server": connection.from_settings(settings)}
        if key := settings.get("REDIS_ITEMS_KEY"):
            options["key"] = key
        if path := settings.get("REDIS_ITEMS_SERIALIZER"):
            options["serialize_func"] = load_object(path)
        return cls(**options)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create it for a crawler, as Scrapy does."""
        with reported_start_errors(crawler):
            pipeline = cls.from_settings(crawler.settings)
        pipeline.crawler = crawler
        return pipeline

    async def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        """Store *item* and return it."""
        spider = spider or (self.crawler.spider if self.crawler else None)
        if type(self)._process_item is not RedisPipeline._process_item:  # noqa: SLF001 - of our own subclass
            return await _in_thread(lambda: self._process_item(item, spider))
        stored: Deferred[None] = Deferred()
        self._waiting.put(PendingItem(self.item_key(item, spider), self.serialize(item), stored))
        if self._thread is None:
            self._start()
        await maybe_deferred_to_future(stored)
        return item

    def _process_item(self, item: Any, spider: Any) -> Any:
        """Store one item, blocking. If a subclass overrides this method, it is called in a thread for each item."""
        self.server.rpush(self.item_key(item, spider), self.serialize(item))
        return item

    def item_key(self, item: Any, spider: Any) -> str:  # noqa: ARG002 - subclasses may choose by the item
        """Return the key of the list for an item."""
        return self.key % {"spider": spider.name}

    def close_spider(self, spider: Spider | None = None) -> None:  # noqa: ARG002 - older versions of Scrapy pass it
        """Let the writer finish; the spider waits for it when it closes."""
        self._waiting.put(None)

    # ── batches ──

    def _start(self) -> None:
        self._on_reactor = find_reactor()
        self._thread = threading.Thread(target=self._run, name="silkline-items", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Store waiting items until the spider closes. Runs in the thread."""
        while True:
            batch = [self._waiting.get()]
            while len(batch) < MAX_BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
            items = [one for one in batch if one is not None]
            for key in dict.fromkeys(one.key for one in items):
                self._push(key, [one for one in items if one.key == key])
            if None in batch:
                return

    def _push(self, key: str, batch: list[PendingItem]) -> None:
        values = [one.data for one in batch]
        failure: Exception | None = None
        try:
            connection.call_until_reachable(lambda: self.server.rpush(key, *values), _complain)
        except Exception as error:  # noqa: BLE001 - raised by `process_item` of each item
            failure = error

        def report() -> None:
            for one in batch:
                if failure is None:
                    one.stored.callback(None)
                else:
                    one.stored.errback(failure)

        self._on_reactor(report)


async def _in_thread(function: Callable[[], Any]) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return await deferToThread(function)
    return await asyncio.to_thread(function)


def _complain(error: Exception) -> None:
    log.warning("Redis is unreachable, items wait: %s", error)
