"""What the plugin has to know of Scrapy's engine, and Scrapy has no public name for in all its versions."""

from __future__ import annotations

from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.utils.defer import deferred_from_coro


def find_slot(crawler: Crawler) -> Any:
    """Where the engine keeps its scheduler while a spider is open; None before and after."""
    engine: Any = crawler.engine
    return engine._slot if engine is not None else None  # noqa: SLF001 - Scrapy before 2.19 has no other name for it


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is about to close, or has closed: then nothing new is begun. May be asked in any thread."""
    slot = find_slot(crawler)
    return slot is None or slot.closing is not None


def wake(crawler: Crawler) -> None:
    """Have the engine look for something to do."""
    if not is_closing(crawler):
        find_slot(crawler).nextcall.schedule()


def has_component(crawler: Crawler, module: str) -> bool:
    """Whether a spider middleware of *module* is in use."""
    engine: Any = crawler.engine
    return any(type(one).__module__ == module for one in engine.scraper.spidermw.middlewares)


def close_spider(crawler: Crawler, spider: Spider, reason: str) -> None:
    """Close the spider, unless it closes already."""
    if is_closing(crawler):
        return
    engine: Any = crawler.engine
    if hasattr(engine, "close_spider_async"):
        deferred_from_coro(engine.close_spider_async(reason=reason))
    else:
        engine.close_spider(spider, reason=reason)
