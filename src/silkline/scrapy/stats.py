"""`RedisStatsCollector`: the stats of all workers of a spider in one Redis hash."""

from __future__ import annotations

import logging
import threading
from datetime import datetime
from functools import cached_property
from typing import Any, Self

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from silkline.errors import SilklineError, StoreUnavailable
from silkline.frontier.crawl_server import connected
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.transport.command import Command
from silkline.frontier.transport.sync.connection import SyncConnection
from silkline.frontier.user_keys.counters import Counter, CounterChange, CounterVerb
from silkline.frontier.verbs.lifecycle import read_settings
from silkline.scrapy import connection, defaults
from silkline.scrapy.bridge.engine_hooks import run_by_tool
from silkline.scrapy.bridge.start_errors import reported_start_errors
from silkline.scrapy.convert.settings import crawl_name, server_url

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two writes."""
CLOSE_TIMEOUT = 10.0
"""Seconds for which a closing spider waits for the last write."""


class RedisStatsCollector(StatsCollector):
    """Counts in memory, and adds the counts to a Redis hash every second.

    `get_value` and `get_stats` return the stats of this process; the hash has the sums over all workers of the spider.
    A value that several workers set is the last one. Without SCHEDULER_PERSIST, the last worker of the crawl deletes the
    hash.
    """

    def __init__(self, crawler: Crawler, spider: Spider | None = None) -> None:
        super().__init__(crawler)
        self.crawler = crawler
        self.spider = spider
        self.stats_key = crawler.settings.get("STATS_KEY") or defaults.STATS_KEY
        self.persist = crawler.settings.getbool("SCHEDULER_PERSIST")
        with reported_start_errors(crawler):
            self._writer = StatsWriter(server_url(crawler.settings), self._get_key())
        self._writes = False
        """Whether the spider is open and its stats are written: not those of Scrapy's command-line tools."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create it for a crawler, as Scrapy does."""
        return cls(crawler)

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """Create it for a spider, as scrapy-redis does."""
        return cls(spider.crawler)

    def _get_key(self, spider: Spider | None = None) -> str:
        """Return the key of the hash."""
        return str(self.stats_key % {"spider": spider.name if spider else self.spider_name})

    @cached_property
    def server(self) -> Any:
        """A redis-py client for the project's own code."""
        return connection.from_settings(self.crawler.settings)

    @property
    def spider_name(self) -> str:
        """The name of the spider whose stats these are."""
        return (self.spider or self.crawler.spidercls).name

    # ── counting ──
    def set_value(self, key: str, value: Any, spider: Spider | None = None) -> None:  # noqa: ARG002 - Scrapy's
        """Set a stat, here and on the server."""
        self._stats[key] = value
        self._writer.note(CounterChange("set", key, _stored(value)))

    def set_stats(self, stats: dict[str, Any], spider: Spider | None = None) -> None:  # noqa: ARG002
        """Set all stats, here and on the server."""
        self._stats = stats
        for key, value in stats.items():
            self._writer.note(CounterChange("set", key, _stored(value)))

    def inc_value(self, key: str, count: int = 1, start: int = 0, spider: Spider | None = None) -> None:  # noqa: ARG002
        """Add to a stat. The server adds up what all processes count."""
        known = self._stats.get(key)
        self._stats[key] = (start if known is None else known) + count
        self._writer.note(CounterChange("add", key, count if known is not None else start + count))

    def max_value(self, key: str, value: Any, spider: Spider | None = None) -> None:  # noqa: ARG002
        """Raise a stat to a value, if it is lower."""
        self._stats[key] = max(self._stats.setdefault(key, value), value)
        self._writer.note(_extreme("most", key, self._stats[key]))

    def min_value(self, key: str, value: Any, spider: Spider | None = None) -> None:  # noqa: ARG002
        """Lower a stat to a value, if it is higher."""
        self._stats[key] = min(self._stats.setdefault(key, value), value)
        self._writer.note(_extreme("least", key, self._stats[key]))

    def clear_stats(self, spider: Spider | None = None) -> None:  # noqa: ARG002
        """Delete all stats, in this process and on the server."""
        self._stats.clear()
        self._writer.note(CounterChange("clear"))

    # ── opening and closing ──
    def open_spider(self, *args: Any, **kwargs: Any) -> None:
        """Begin to write the stats of a spider."""
        super().open_spider(*args, **kwargs)
        self.spider = self.crawler.spider
        self._writes = not run_by_tool(self.crawler)
        if self._writes:
            self._writer.start()

    def close_spider(self, *args: Any, **kwargs: Any) -> None:
        """Write what is left. Unless the crawl persists, its stats are deleted with it."""
        super().close_spider(*args, **kwargs)
        if not self._writes:
            return
        crawl = crawl_name(self.crawler.settings, self.spider_name)
        self._writer.close(clear_without=None if self.persist else crawl)


def _stored(value: Any) -> str | int | float:
    """Return a value as scrapy-redis stores it: a time as a timestamp, all else as a string or number."""
    if isinstance(value, datetime):
        return value.timestamp()
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _extreme(verb: CounterVerb, key: str, value: Any) -> CounterChange:
    stored = _stored(value)
    return CounterChange(verb if isinstance(stored, int | float) else "set", key, stored)


class StatsWriter:
    """A thread that sends changes to the hash, merged by name. While the server is unreachable, changes are collected."""

    def __init__(self, url: str | None, key: str) -> None:
        self._url = url
        self._key = key
        self._counter = Counter(key)
        self._changes: dict[str, CounterChange] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._clear_without: str | None = None
        self._thread = threading.Thread(target=self._run, name="silkline-stats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def note(self, change: CounterChange) -> None:
        with self._lock:
            if change.verb == "clear":
                self._changes.clear()
            self._changes[change.name] = _merge(self._changes.get(change.name), change)

    def close(self, *, clear_without: str | None) -> None:
        """Write the remaining changes. Deletes the hash if the crawl *clear_without* no longer exists."""
        self._clear_without = clear_without
        self._closing.set()
        self._thread.join(CLOSE_TIMEOUT)
        if self._thread.is_alive():
            log.warning("The last stats of %s were not written: Redis is unreachable", self._key)

    def _run(self) -> None:
        try:
            while not self._connected():
                if self._closing.wait(EVERY):
                    return
        except Exception:
            log.exception("The stats of %s are not written", self._key)

    def _connected(self) -> bool:
        """Write until the spider closes. Returns False if no connection could be opened."""
        try:
            with connected(self._url) as connection:
                while not self._closing.wait(EVERY):
                    self._write(connection)
                self._write(connection)
                self._end(connection)
            return True
        except StoreUnavailable as error:
            log.warning("Redis is unreachable, the stats of %s wait: %s", self._key, error)
            return False

    def _write(self, connection: SyncConnection) -> None:
        with self._lock:
            changes, self._changes = self._changes, {}
        if not changes:
            return
        command = self._counter.count(changes.values())
        while not self._sent(connection, command):
            if self._closing.wait(EVERY):
                connection.call(command)  # the last attempt
                break

    def _sent(self, connection: SyncConnection, command: Command[None]) -> bool:
        try:
            connection.call(command)
        except StoreUnavailable as error:
            log.warning("Redis is unreachable, the stats of %s wait: %s", self._key, error)
            return False
        return True

    def _end(self, connection: SyncConnection) -> None:
        if self._clear_without is None:
            return
        try:
            stored = connection.call(read_settings(CrawlKeys(self._clear_without)))
        except StoreUnavailable:
            raise
        except SilklineError:
            return  # the crawl exists
        if stored is None:
            connection.call(self._counter.count([CounterChange("clear")]))


def _merge(known: CounterChange | None, change: CounterChange) -> CounterChange:
    """Merge two changes of one name."""
    if known is None or change.verb in ("set", "clear"):
        return change
    if change.verb == "add" and known.verb in ("add", "set"):
        if isinstance(known.value, str) or isinstance(change.value, str):
            return change
        return CounterChange(known.verb, known.name, known.value + change.value)
    return change  # a maximum or minimum: the collector has compared its own values, the server compares those of all
