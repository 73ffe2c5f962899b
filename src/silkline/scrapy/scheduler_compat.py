"""The attributes and methods of scrapy-redis' scheduler that Scrapy's interface does not have, for projects that use them."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any, NoReturn

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from silkline.errors import ConfigError, SilklineError, UnknownCrawl
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.frontier import Frontier
from silkline.frontier.sync import SyncFrontier
from silkline.scrapy import connection, defaults
from silkline.scrapy.bridge.bridge import Bridge
from silkline.scrapy.convert.settings import PluginOptions

log = logging.getLogger(__name__)

REPLY_TIMEOUT = 30.0
"""Seconds for which the reactor waits for the reply of the server."""


class SchedulerCompat:
    """A base class of `Scheduler`."""

    crawler: Crawler
    spider: Spider
    bridge: Bridge
    serializer: Any = None
    _persist: bool | None = None

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> NoReturn:
        """Raise `ConfigError`: a scheduler needs a crawler."""
        del settings
        raise ConfigError(
            f"{cls.__name__}.from_settings is not supported: Silkline creates its scheduler with from_crawler(crawler)."
            " Override that instead; crawler.settings has the settings"
        )

    @cached_property
    def server(self) -> Any:
        """A redis-py client for the project's own code. Its calls block until the server replies."""
        return connection.from_settings(self.crawler.settings)

    @property
    def persist(self) -> bool:
        """Whether the crawl is kept when its last worker closes. A subclass may set it before the spider opens."""
        return self.crawler.settings.getbool("SCHEDULER_PERSIST") if self._persist is None else self._persist

    @persist.setter
    def persist(self, value: bool) -> None:
        if self._is_open:
            raise SilklineError(
                "persist cannot be changed while the spider is open; set SCHEDULER_PERSIST in the settings"
            )
        self._persist = bool(value)

    @property
    def flush_on_start(self) -> bool:
        """The setting `SCHEDULER_FLUSH_ON_START`."""
        return self.crawler.settings.getbool("SCHEDULER_FLUSH_ON_START")

    @property
    def idle_before_close(self) -> float:
        """The setting `SCHEDULER_IDLE_BEFORE_CLOSE`."""
        return self.crawler.settings.getfloat("SCHEDULER_IDLE_BEFORE_CLOSE")

    @property
    def queue_key(self) -> str:
        """The setting `SCHEDULER_QUEUE_KEY`."""
        return str(self._setting("SCHEDULER_QUEUE_KEY"))

    @property
    def queue_cls(self) -> Any:
        """The setting `SCHEDULER_QUEUE_CLASS`."""
        return self._setting("SCHEDULER_QUEUE_CLASS")

    @property
    def dupefilter_key(self) -> str:
        """The setting `SCHEDULER_DUPEFILTER_KEY`."""
        return str(self._setting("SCHEDULER_DUPEFILTER_KEY"))

    @property
    def dupefilter_cls(self) -> Any:
        """The setting `DUPEFILTER_CLASS`."""
        return self.crawler.settings.get("DUPEFILTER_CLASS")

    def _setting(self, name: str) -> Any:
        return self.crawler.settings.get(name) or getattr(defaults, name)

    # ── the whole crawl ──

    def flush(self) -> None:
        """Remove the crawl, with its waiting requests and its seen filter.

        Raises `SilklineError` while the spider is open. Does nothing while other workers work on the crawl.
        """
        if self._is_open:
            raise SilklineError(
                "flush() cannot remove a crawl while its spider is open: its requests are leased. Call flush() after the"
                " spider has closed, or set SCHEDULER_FLUSH_ON_START=True for the next run. Without SCHEDULER_PERSIST,"
                " the last worker removes the crawl when it closes"
            )
        options = PluginOptions.read(self.crawler.settings, self.spider)
        try:
            with SyncFrontier.open(options.url, crawl=options.crawl, create=False) as frontier:
                others = frontier.internal.leave("flush", shut=True)
                if not others:
                    frontier.admin.remove()
        except UnknownCrawl:
            return
        if others:
            log.warning("flush() did nothing: %d other workers work on the crawl %r", others, options.crawl)

    def count_waiting(self) -> int:
        """Return the number of requests that wait in the crawl. Blocks until the server replies."""
        if self._is_open:
            return self.bridge.submit(_read_stats).result(REPLY_TIMEOUT).pending + len(self.bridge.outbox)
        options = PluginOptions.read(self.crawler.settings, self.spider)
        try:
            with SyncFrontier.open(options.url, crawl=options.crawl, create=False) as frontier:
                return frontier.admin.stats().pending
        except UnknownCrawl:
            return 0

    @property
    def _is_open(self) -> bool:
        return hasattr(self, "bridge") and self.bridge.is_open


async def _read_stats(frontier: Frontier) -> Stats:
    return await frontier.admin.stats()
