"""The add-on: one line in the settings that makes a Scrapy or scrapy-redis project run on Silkline."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from silkline.scrapy import guard
from silkline.scrapy.bridge.engine_hooks import run_by_tool
from silkline.scrapy.bridge.start_errors import reported_start_errors
from silkline.scrapy.convert.project import PATHS, SCRAPY_REDIS, SILKLINE, TABLES, of_scrapy_redis, speaks_scrapy_redis
from silkline.scrapy.convert.settings import check_settings, use_local_server

log = logging.getLogger(__name__)

SPIDER_ORDER = 51
"""Just before Scrapy's HttpErrorMiddleware (50) when an exception comes up from the spider."""
DOWNLOADER_ORDER = 551
"""Just before Scrapy's RetryMiddleware (550) when a response comes up from the downloader."""

GUARD_ORDER = 990
"""Next to the downloader, so that it sees the final URL of a request."""


class Addon:
    """Enabled with ``ADDONS = {"silkline.scrapy.Addon": 100}``; a project needs nothing else.

    Replaces paths that begin with ``scrapy_redis.`` by those of Silkline, at the priority with which they were set. Adds
    Silkline's middlewares, and its scheduler unless the project names another one. A project of scrapy-redis that names no server
    uses localhost:6379, and may connect to private addresses, as before.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create it for a crawler, as Scrapy does."""
        return cls(crawler)

    def update_settings(self, settings: BaseSettings) -> None:
        """Change the settings. Scrapy calls it before it creates other components."""
        if speaks_scrapy_redis(settings):
            use_local_server(settings)
            if settings.get(guard.SETTING) is None:
                settings.set(guard.SETTING, value=True, priority=settings.getpriority(guard.SETTING) or "addon")
                self._warn_of_private_addresses()
        for name in PATHS:
            value = settings.get(name)
            if of_scrapy_redis(value):
                settings.set(name, renamed(value), settings.getpriority(name) or "addon")
        for name in TABLES:
            rename_keys(settings, name)
        settings.set("SCHEDULER", "silkline.scrapy.Scheduler", "addon")
        self._check(settings)
        add(settings, "SPIDER_MIDDLEWARES", "silkline.scrapy.middlewares.SpiderMiddleware", SPIDER_ORDER)
        add(settings, "DOWNLOADER_MIDDLEWARES", "silkline.scrapy.middlewares.DownloaderMiddleware", DOWNLOADER_ORDER)
        add(settings, "DOWNLOADER_MIDDLEWARES", "silkline.scrapy.guard.GuardMiddleware", GUARD_ORDER)
        if settings.getbool("SILKLINE_POLITENESS_CLUSTER_WIDE", True):  # noqa: FBT003 - Scrapy's signature
            disable_jitter(settings)

    def _warn_of_private_addresses(self) -> None:
        if self._crawler is not None and not run_by_tool(self._crawler):
            log.warning(
                "Private addresses are allowed, because this project was written for scrapy-redis, which allows them. To refuse them, so"
                " that a page cannot make the spider connect to services in your network, set %s = False, or the list of the hosts that"
                " the spider may use. To keep this without a warning, set it to True",
                guard.SETTING,
            )

    def _check(self, settings: BaseSettings) -> None:
        """Raise `ConfigError` for wrong settings before other components read them, unless a Scrapy tool runs the spider."""
        crawler = self._crawler
        if crawler is not None and crawler.spider is not None and not run_by_tool(crawler):
            with reported_start_errors(crawler):
                check_settings(settings, crawler.spider)


def renamed(path: str) -> str:
    return SILKLINE + path.removeprefix(SCRAPY_REDIS)


def rename_keys(settings: BaseSettings, name: str) -> None:
    """Rename the paths of scrapy-redis in a dict."""
    table: Any = settings.get(name)
    if not isinstance(table, MutableMapping):
        return
    for path in [path for path in table if of_scrapy_redis(path)]:
        place = table[path]
        priority = table.getpriority(path) if isinstance(table, BaseSettings) else None
        del table[path]
        if isinstance(table, BaseSettings):
            table.set(renamed(path), place, priority or "project")
        else:
            table[renamed(path)] = place


def add(settings: BaseSettings, name: str, path: str, place: int) -> None:
    """Add a component, unless the project has set or disabled it."""
    table: Any = settings.get(name)
    if isinstance(table, BaseSettings):
        if path not in table:
            table.set(path, place, "addon")
    else:
        settings.set(name, {**(table or {}), path: place}, settings.getpriority(name) or "addon")


def disable_jitter(settings: BaseSettings) -> None:
    """Make the downloader's delay constant: the frontier keeps the delay for all workers."""
    if settings.getfloat("DOWNLOAD_DELAY") > 0 or settings.getdict("DOWNLOAD_SLOTS"):
        name = "DOWNLOAD_DELAY_JITTER" if "DOWNLOAD_DELAY_JITTER" in settings else "RANDOMIZE_DOWNLOAD_DELAY"
        settings.set(name, 0, "cmdline")
