"""The add-on: one line in the settings, and a project of scrapy-redis runs on Silkline."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from scrapy.settings import BaseSettings

THEIRS, OURS = "scrapy_redis.", "silkline.scrapy."
PATHS = (
    "SCHEDULER", "DUPEFILTER_CLASS", "SCHEDULER_DUPEFILTER_CLASS", "SCHEDULER_QUEUE_CLASS", "STATS_CLASS",
    "REDIS_ITEMS_SERIALIZER",
)  # fmt: skip
"""Settings that name one class."""
TABLES = ("ITEM_PIPELINES", "SPIDER_MIDDLEWARES", "DOWNLOADER_MIDDLEWARES", "EXTENSIONS")
"""Settings that name several, with numbers."""

SPIDER_PLACE = 51
"""Just before Scrapy's HttpErrorMiddleware (50) when an exception comes up from the spider."""
DOWNLOADER_PLACE = 551
"""Just before Scrapy's RetryMiddleware (550) when a response comes up from the downloader."""


class Addon:
    """The line ``ADDONS = {"silkline.scrapy.Addon": 100}`` is all that a project needs.

    Paths that begin with ``scrapy_redis.`` become ours wherever a setting names them, at the priority they were set with.
    Where the project names no scheduler of its own, ours is put in, with its two middlewares.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        """Called by Scrapy before anything is built of the settings."""
        for name in PATHS:
            value = settings.get(name)
            if isinstance(value, str) and value.startswith(THEIRS):
                settings.set(name, renamed(value), settings.getpriority(name) or "addon")
        for name in TABLES:
            rename_keys(settings, name)
        settings.set("SCHEDULER", "silkline.scrapy.Scheduler", "addon")
        add(settings, "SPIDER_MIDDLEWARES", "silkline.scrapy.middlewares.SpiderMiddleware", SPIDER_PLACE)
        add(settings, "DOWNLOADER_MIDDLEWARES", "silkline.scrapy.middlewares.DownloaderMiddleware", DOWNLOADER_PLACE)
        if settings.getbool("SILKLINE_POLITENESS_CLUSTER_WIDE", True):  # noqa: FBT003 - Scrapy's signature
            settle_pace(settings)


def renamed(path: str) -> str:
    return OURS + path.removeprefix(THEIRS)


def rename_keys(settings: BaseSettings, name: str) -> None:
    table: Any = settings.get(name)
    if not isinstance(table, MutableMapping):
        return
    for path in [path for path in table if isinstance(path, str) and path.startswith(THEIRS)]:
        place = table[path]
        priority = table.getpriority(path) if isinstance(table, BaseSettings) else None
        del table[path]
        if isinstance(table, BaseSettings):
            table.set(renamed(path), place, priority or "project")
        else:
            table[renamed(path)] = place


def add(settings: BaseSettings, name: str, path: str, place: int) -> None:
    """Put a component in, unless the project has said something about it."""
    table: Any = settings.get(name)
    if isinstance(table, BaseSettings):
        if path not in table:
            table.set(path, place, "addon")
    else:
        settings.set(name, {**(table or {}), path: place}, settings.getpriority(name) or "addon")


def settle_pace(settings: BaseSettings) -> None:
    """The frontier keeps the pace, evenly, for all workers: a delay of the downloader's own must not vary around it."""
    if settings.getfloat("DOWNLOAD_DELAY") > 0:
        name = "DOWNLOAD_DELAY_JITTER" if "DOWNLOAD_DELAY_JITTER" in settings else "RANDOMIZE_DOWNLOAD_DELAY"
        settings.set(name, 0, "cmdline")
