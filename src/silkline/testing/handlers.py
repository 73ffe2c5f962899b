"""Unit tests of handlers: a page made of HTML, and what a handler makes of it.

::

    result = run_handler(product, page("<h1>Lamp</h1>", url="https://shop.example/lamp"))
    assert result.items == [{"title": "Lamp"}]
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from silkline.core.request import Request, check
from silkline.core.scope import Scope
from silkline.core.url import parse
from silkline.errors import ConfigError
from silkline.fetch.fetcher import Headers, Response
from silkline.runtime.event_loop import run_async
from silkline.sinks.sink import record_of
from silkline.worker.crawl import handlers
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.page import Links, Page


class HandlerResult(msgspec.Struct, frozen=True):
    """What a handler yielded or returned for a page: its *items* and the *links* that it follows.

    *skipped* counts the links that `page.follow` did not follow, by reason.
    """

    items: list[Any]
    links: list[Request]
    skipped: dict[str, int]


def page(
    html: str | bytes = "",
    *,
    url: str = "https://example.com/",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    request: Request | None = None,
    crawl: Crawl | None = None,
) -> Page:
    """Return a page with this body, as a handler gets it. Nothing is fetched.

    *html* may also be JSON or other text, with its type in *headers*. *request* is the request of the page, with its ``meta`` and
    depth. With *crawl*, links are followed as its scope and its handlers permit.
    """
    parse(url)  # raises InvalidUrl
    text = isinstance(html, str)
    sent = {"content-type": "text/html; charset=utf-8" if text else "text/html"}
    sent |= {name.lower(): value for name, value in (headers or {}).items()}
    body = html.encode() if isinstance(html, str) else bytes(html)
    response = Response(url, status, Headers(sent.items()), body, 0.0)
    known = crawl.handlers if crawl else AnyHandlers()
    scope = crawl.scope if crawl else Scope()
    return Page(request or Request(url), response, crawl.handlers.first if crawl else "", known, Links(scope))


def run_handler(handler: Callable[..., Any], page: Page, args: Mapping[str, Any] | None = None) -> HandlerResult:
    """Call a handler (a function or generator, async or not) with a page, and return its items and links.

    *args* are its arguments besides the page, as `page.follow` takes them; by default, those of the page's request.

    Raises `RequestError` for arguments that the handler does not have, or that cannot be stored. Raises whatever the handler raises, also `Drop` and `RetryLater`, and `InvalidItem` for an item that cannot be stored. In an
    async test, the handler runs in another thread with an event loop there.
    """
    with_args(handler, page, args)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _checked(run_async(handlers.run_handler(handler, page)), page)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1, "silkline-handler") as thread:
        done = thread.submit(context.run, run_async, handlers.run_handler(handler, page))
        return _checked(done.result(), page)


def _checked(output: handlers.HandlerOutput, page: Page) -> HandlerResult:
    for number, item in enumerate(output.items):
        record_of(str(number), page.url, item)  # raises InvalidItem
    return HandlerResult(output.items, output.requests, dict(page.skipped))


def with_args(handler: Callable[..., Any], page: Page, args: Mapping[str, Any] | None) -> None:
    """Make *page* one of this handler, with these arguments if there are any. Raises `RequestError` if it cannot have them."""
    page.handler = page.names(handler)
    if args is not None:
        page.request = msgspec.structs.replace(page.request, args=dict(args))
        check(page.request)
    handlers.check_args(handler, page.handler, page.request.args)


class AnyHandlers:
    """Functions are handlers by their names, without a crawl; see `KnownHandlers`."""

    def __init__(self) -> None:
        self._known: dict[str, Callable[..., Any]] = {}

    def name_of(self, handler: object) -> str:
        """See `KnownHandlers`."""
        name = handler if isinstance(handler, str) else getattr(handler, "__name__", "")
        if not name:
            raise ConfigError(f"a handler is a function or the name of one, got {handler!r}")
        if callable(handler):
            self._known[name] = handler
        return str(name)

    def needs_args(self, name: str) -> bool:
        """See `KnownHandlers`."""
        return name in self._known and handlers.needs_args(self._known[name], name)

    def check_args(self, name: str, args: Mapping[str, Any]) -> None:
        """See `KnownHandlers`."""
        if name in self._known:
            handlers.check_args(self._known[name], name, args)
