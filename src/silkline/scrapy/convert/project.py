"""Recognizes a project of scrapy-redis, whose settings name classes with paths that begin with ``scrapy_redis.``, and one of Silkline."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

from scrapy.settings import BaseSettings

SCRAPY_REDIS = "scrapy_redis."
SILKLINE = "silkline.scrapy."
PATHS = (
    "SCHEDULER", "DUPEFILTER_CLASS", "SCHEDULER_DUPEFILTER_CLASS", "SCHEDULER_QUEUE_CLASS", "STATS_CLASS",
    "REDIS_ITEMS_SERIALIZER",
)  # fmt: skip
"""Settings whose value is the path of a class."""
TABLES = ("ITEM_PIPELINES", "SPIDER_MIDDLEWARES", "DOWNLOADER_MIDDLEWARES", "EXTENSIONS")
"""Settings whose value is a dict of paths and orders."""


def speaks_scrapy_redis(settings: BaseSettings) -> bool:
    """Return whether the settings name a class of scrapy-redis, or the project has imported the package or an alias of that name."""
    return SCRAPY_REDIS.rstrip(".") in sys.modules or names_scrapy_redis(settings)


def names_scrapy_redis(settings: BaseSettings) -> bool:
    """Return whether the settings name a class of scrapy-redis."""
    return any(of_scrapy_redis(settings.get(name)) for name in PATHS) or any(
        any(of_scrapy_redis(path) for path in table)
        for table in map(settings.get, TABLES)
        if isinstance(table, MutableMapping)
    )


def names_silkline(settings: BaseSettings) -> bool:
    """Return whether the settings name Silkline's add-on or scheduler, by path or as a class."""
    addons: Any = settings.get("ADDONS")
    named = [*(addons if isinstance(addons, MutableMapping) else ()), settings.get("SCHEDULER")]
    return any(_path(one).startswith(SILKLINE) for one in named)


def _path(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else str(value)


def of_scrapy_redis(path: Any) -> bool:
    """Return whether a value of a setting is the path of a class of scrapy-redis."""
    return isinstance(path, str) and path.startswith(SCRAPY_REDIS)
