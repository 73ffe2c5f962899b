"""RedisStatsCollector: the numbers of all workers of a spider in one hash."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any, Self

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from silkline.frontier.numbers import Change, Verb
from silkline.scrapy import connection
from silkline.scrapy.address import read_address
from silkline.scrapy.options import crawl_name
from silkline.scrapy.stats_writer import StatsWriter

STATS_KEY = "%(spider)s:stats"


class RedisStatsCollector(StatsCollector):
    """Counts in memory, and adds what was counted to a hash on the server every few seconds.

    What it answers are the numbers of this process; the hash has those of all that work on the spider, added up. A
    value that was set is the last one that anybody set. When requests do not persist, the last worker of the crawl
    deletes the hash.
    """

    def __init__(self, crawler: Crawler, spider: Spider | None = None) -> None:
        super().__init__(crawler)
        self.crawler = crawler
        self.spider = spider
        self.stats_key = crawler.settings.get("STATS_KEY") or STATS_KEY
        self.persist = crawler.settings.getbool("SCHEDULER_PERSIST")
        self._writer = StatsWriter(read_address(crawler.settings), self._get_key())

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        return cls(spider.crawler)

    def _get_key(self, spider: Spider | None = None) -> str:
        """The key of the hash."""
        return str(self.stats_key % {"spider": spider.name if spider else self.spider_name})

    @cached_property
    def server(self) -> Any:
        """A client of redis-py, for code of the project's own."""
        return connection.from_settings(self.crawler.settings)

    @property
    def spider_name(self) -> str:
        return (self.spider or self.crawler.spidercls).name

    # ── counting ──
    def set_value(self, key: str, value: Any, spider: Spider | None = None) -> None:  # noqa: ARG002 - Scrapy's
        self._stats[key] = value
        self._writer.note(Change("set", key, _stored(value)))

    def set_stats(self, stats: dict[str, Any], spider: Spider | None = None) -> None:  # noqa: ARG002
        self._stats = stats
        for key, value in stats.items():
            self._writer.note(Change("set", key, _stored(value)))

    def inc_value(self, key: str, count: int = 1, start: int = 0, spider: Spider | None = None) -> None:  # noqa: ARG002
        known = self._stats.get(key)
        self._stats[key] = (start if known is None else known) + count
        self._writer.note(Change("add", key, count if known is not None else start + count))

    def max_value(self, key: str, value: Any, spider: Spider | None = None) -> None:  # noqa: ARG002
        self._stats[key] = max(self._stats.setdefault(key, value), value)
        self._writer.note(_extreme("most", key, self._stats[key]))

    def min_value(self, key: str, value: Any, spider: Spider | None = None) -> None:  # noqa: ARG002
        self._stats[key] = min(self._stats.setdefault(key, value), value)
        self._writer.note(_extreme("least", key, self._stats[key]))

    def clear_stats(self, spider: Spider | None = None) -> None:  # noqa: ARG002
        """Forget all of them, here and on the server."""
        self._stats.clear()
        self._writer.note(Change("clear"))

    # ── the spider's life ──
    def open_spider(self, *args: Any, **kwargs: Any) -> None:
        super().open_spider(*args, **kwargs)
        self.spider = self.crawler.spider
        self._writer.start()

    def close_spider(self, *args: Any, **kwargs: Any) -> None:
        super().close_spider(*args, **kwargs)
        crawl = crawl_name(self.crawler.settings, self.spider_name)
        self._writer.close(clear_without=None if self.persist else crawl)


def _stored(value: Any) -> str | int | float:
    """As scrapy-redis stores it: a time as seconds, all else as it is printed."""
    if isinstance(value, datetime):
        return value.timestamp()
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _extreme(verb: Verb, key: str, value: Any) -> Change:
    stored = _stored(value)
    return Change(verb if isinstance(stored, int | float) else "set", key, stored)
