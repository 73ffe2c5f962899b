"""The meta keys of scrapy-playwright: methods to call on a page, and the page itself."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from scrapy import Request
from scrapy.utils.misc import load_object

from silkline.errors import RequestError

PAGE = "playwright_page"
"""The meta key of the page that a callback gets with ``playwright_include_page``."""
PAGE_METHOD = "scrapy_playwright.page.PageMethod"

log = logging.getLogger(__name__)

_closing: set[asyncio.Task[None]] = set()


def is_page_method(kind: type) -> bool:
    return f"{kind.__module__}.{kind.__qualname__}" == PAGE_METHOD


def make_page_method(parts: tuple[str, list[Any], dict[str, Any]]) -> Any:
    """Return a `PageMethod` from its stored parts. Raises `RequestError` unless it names a public method."""
    name, arguments, options = parts
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise RequestError(f"{name!r} is not a public method of a page")
    try:
        cls = load_object(PAGE_METHOD)
    except ImportError:
        raise RequestError("it needs scrapy-playwright: pip install scrapy-playwright") from None
    return cls(name, *arguments, **options)


def close_page(request: Request) -> None:
    """Close the page of a request that failed or is retried: no callback gets it, and a browser has few pages."""
    page: Any = request.meta.get(PAGE)
    if not callable(getattr(page, "is_closed", None)):
        return  # there is no page, or the key has another meaning in this project
    del request.meta[PAGE]
    if page.is_closed():
        return
    task = asyncio.ensure_future(_close(page))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _close(page: Any) -> None:
    try:
        await page.close()
    except Exception as error:  # noqa: BLE001 - the browser may have ended
        log.debug("a browser page could not be closed: %s", error)
