"""What scrapy-playwright leaves in a request's meta: methods to call on a page, and the page itself."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from scrapy import Request
from scrapy.utils.misc import load_object

from silkline.core.errors import RequestError

PAGE = "playwright_page"
"""Where in meta the page is that a callback is to have (``playwright_include_page``)."""
PAGE_METHOD = "scrapy_playwright.page.PageMethod"

log = logging.getLogger(__name__)

_closing: set[asyncio.Task[None]] = set()


def is_page_method(kind: type) -> bool:
    return f"{kind.__module__}.{kind.__qualname__}" == PAGE_METHOD


def make_page_method(parts: tuple[str, list[Any], dict[str, Any]]) -> Any:
    """A `PageMethod` again. It names a public method of a page; what is stored can call nothing else."""
    name, arguments, options = parts
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise RequestError(f"{name!r} is no method of a page")
    try:
        cls = load_object(PAGE_METHOD)
    except ImportError:
        raise RequestError("it needs a browser: pip install scrapy-playwright") from None
    return cls(name, *arguments, **options)


def close_page(request: Request) -> None:
    """Close the page of a request that ended badly or is tried again: no callback will, and pages are few."""
    page: Any = request.meta.get(PAGE)
    if not callable(getattr(page, "is_closed", None)):
        return  # none, or something else of that name
    del request.meta[PAGE]
    if page.is_closed():
        return
    task = asyncio.ensure_future(_close(page))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _close(page: Any) -> None:
    try:
        await page.close()
    except Exception as error:  # noqa: BLE001 - a browser that is gone has closed it
        log.debug("a page of the browser could not be closed: %s", error)
