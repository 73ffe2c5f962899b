"""Recognizes a project of scrapy-redis: its settings name classes whose paths begin with ``scrapy_redis.``."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from scrapy.settings import BaseSettings

SCRAPY_REDIS = "scrapy_redis."
PATHS = (
    "SCHEDULER", "DUPEFILTER_CLASS", "SCHEDULER_DUPEFILTER_CLASS", "SCHEDULER_QUEUE_CLASS", "STATS_CLASS",
    "REDIS_ITEMS_SERIALIZER",
)  # fmt: skip
"""Settings whose value is the path of a class."""
TABLES = ("ITEM_PIPELINES", "SPIDER_MIDDLEWARES", "DOWNLOADER_MIDDLEWARES", "EXTENSIONS")
"""Settings whose value is a dict of paths and orders."""


def names_scrapy_redis(settings: BaseSettings) -> bool:
    """Return whether the settings name a class of scrapy-redis."""
    return any(of_scrapy_redis(settings.get(name)) for name in PATHS) or any(
        any(of_scrapy_redis(path) for path in table)
        for table in map(settings.get, TABLES)
        if isinstance(table, MutableMapping)
    )


def of_scrapy_redis(path: Any) -> bool:
    """Return whether a value of a setting is the path of a class of scrapy-redis."""
    return isinstance(path, str) and path.startswith(SCRAPY_REDIS)
