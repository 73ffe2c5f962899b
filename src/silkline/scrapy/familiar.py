"""What the scheduler of scrapy-redis has beyond the interface of Scrapy's, for code that knows it from there."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any, NoReturn

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from silkline.core.errors import ConfigError, SilklineError, UnknownCrawl
from silkline.frontier.frontier import Frontier
from silkline.frontier.inspection import Stats
from silkline.frontier.sync import SyncFrontier
from silkline.scrapy import connection
from silkline.scrapy.bridge import Bridge
from silkline.scrapy.options import Options

log = logging.getLogger(__name__)

PATIENCE = 30.0
"""Seconds for which code on the reactor waits for an answer it has asked for."""


DEFAULTS = {
    "SCHEDULER_QUEUE_KEY": "%(spider)s:requests",
    "SCHEDULER_QUEUE_CLASS": "silkline.scrapy.queue.PriorityQueue",
    "SCHEDULER_DUPEFILTER_KEY": "%(spider)s:dupefilter",
}


class Familiar:
    """A part of `Scheduler`."""

    crawler: Crawler
    spider: Spider
    bridge: Bridge
    serializer: Any = None

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> NoReturn:
        """Refuse: it cannot be made without a crawler."""
        del settings
        raise ConfigError(
            f"{cls.__name__}.from_settings is not called: a scheduler is made by from_crawler(crawler), which has the"
            " settings and more. Override that"
        )

    @cached_property
    def server(self) -> Any:
        """A client of redis-py, for code of the project's own. What it does waits for the server."""
        return connection.from_settings(self.crawler.settings)

    @property
    def persist(self) -> bool:
        return self.crawler.settings.getbool("SCHEDULER_PERSIST")

    @property
    def flush_on_start(self) -> bool:
        return self.crawler.settings.getbool("SCHEDULER_FLUSH_ON_START")

    @property
    def idle_before_close(self) -> float:
        return self.crawler.settings.getfloat("SCHEDULER_IDLE_BEFORE_CLOSE")

    @property
    def queue_key(self) -> str:
        return str(self._setting("SCHEDULER_QUEUE_KEY"))

    @property
    def queue_cls(self) -> Any:
        return self._setting("SCHEDULER_QUEUE_CLASS")

    @property
    def dupefilter_key(self) -> str:
        return str(self._setting("SCHEDULER_DUPEFILTER_KEY"))

    @property
    def dupefilter_cls(self) -> Any:
        return self.crawler.settings.get("DUPEFILTER_CLASS")

    def _setting(self, name: str) -> Any:
        return self.crawler.settings.get(name) or DEFAULTS[name]

    # ── the whole crawl ──

    def flush(self) -> None:
        """Remove the crawl: what waits in it, and what it has seen. Not while the spider is open, or another's is."""
        if self._is_open:
            raise SilklineError(
                "flush() cannot empty a crawl at which its spider works: its pages are leased. Call it once the spider"
                " has closed; or let SCHEDULER_FLUSH_ON_START=True empty it before the next run, or, unless"
                " SCHEDULER_PERSIST, the last worker at the end of this one"
            )
        options = Options.read(self.crawler.settings, self.spider)
        try:
            with SyncFrontier.open(options.url, crawl=options.crawl, create=False) as frontier:
                others = frontier.leave("flush", shut=True)
                if not others:
                    frontier.remove()
        except UnknownCrawl:
            return
        if others:
            log.warning("flush() was not done: %d other workers are at work on the crawl %r", others, options.crawl)

    def count_waiting(self) -> int:
        """How many requests wait in the crawl. Asks the server, and waits for its answer."""
        if self._is_open:
            return self.bridge.submit(_read_stats).result(PATIENCE).pending + self.bridge.unsent
        options = Options.read(self.crawler.settings, self.spider)
        try:
            with SyncFrontier.open(options.url, crawl=options.crawl, create=False) as frontier:
                return frontier.stats().pending
        except UnknownCrawl:
            return 0

    @property
    def _is_open(self) -> bool:
        return hasattr(self, "bridge") and self.bridge.is_open


async def _read_stats(frontier: Frontier) -> Stats:
    return await frontier.stats()
