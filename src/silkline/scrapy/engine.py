"""What the plugin has to know of Scrapy's engine, and Scrapy has no public name for in all its versions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.utils.defer import deferred_from_coro

log = logging.getLogger(__name__)

MIDDLEWARES = "silkline.scrapy.middlewares"


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


def warn_without_middlewares(crawler: Crawler) -> None:
    """Tell a project that has named the scheduler, and not the add-on."""
    engine: Any = crawler.engine
    if not any(type(one).__module__ == MIDDLEWARES for one in engine.scraper.spidermw.middlewares):
        log.warning(
            "statuses that are errors count as done, and hosts that ask for patience are not heard: the middlewares of"
            ' silkline.scrapy are missing. ADDONS = {"silkline.scrapy.Addon": 100} puts them in'
        )


def on_closing(crawler: Crawler, act: Callable[[], None]) -> None:
    """Have *act* called when the spider begins to close, which takes as long as the slowest of its pages."""
    slot = find_slot(crawler)
    close = slot.close

    def begin() -> Any:
        act()
        return close()

    slot.close = begin


def close_spider(crawler: Crawler, spider: Spider, reason: str) -> None:
    """Close the spider, unless it closes already."""
    if is_closing(crawler):
        return
    engine: Any = crawler.engine
    if hasattr(engine, "close_spider_async"):
        deferred_from_coro(engine.close_spider_async(reason=reason))
    else:
        engine.close_spider(spider, reason=reason)
