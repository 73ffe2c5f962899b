"""Errors that keep a spider from opening: one sentence in the log, without tracebacks, and an exit code that is not 0.

Scrapy lets such an error end the task or the Deferred of the crawl. A program that waits for it gets the exception; if none
does, asyncio and Twisted would log its traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from scrapy.crawler import Crawler

from silkline.errors import SilklineError
from silkline.scrapy.bridge.engine_hooks import abandon_start

log = logging.getLogger(__name__)

_reported: list[SilklineError] = []
"""Errors that were logged. While they are here, Twisted does not take them for lost, and does not print them again."""


@contextmanager
def reported_start_errors(crawler: Crawler) -> Iterator[None]:
    """Report an error of the block, which creates or opens a component of the crawler, and raise it."""
    try:
        yield
    except Exception as error:
        report_start_error(crawler, error)
        raise


def report_start_error(crawler: Crawler, error: BaseException | None) -> None:
    """Log why the spider cannot open, and make Scrapy give up. Raise the error afterwards.

    The traceback of a `SilklineError` is not logged: its text says what to do. The traceback of any other error is.
    """
    if isinstance(error, SilklineError) and error not in _reported:
        _reported.append(error)
        log.error("the spider cannot open: %s", error, extra={"spider": crawler.spider})
        logging.getLogger("asyncio").addFilter(_is_news)
    abandon_start(crawler)


def _is_news(record: logging.LogRecord) -> bool:
    return not (record.exc_info and record.exc_info[1] in _reported)
