"""Middleware: one onion around the fetch of a page.

::

    @crawl.middleware
    async def signed(request, call_next):
        response = await call_next(with_signature(request))
        return response
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from silkline.core.request import Request
from silkline.worker.fetch.fetcher import Response

Fetch = Callable[[Request], Awaitable[Response]]
Middleware = Callable[[Request, Fetch], Awaitable[Response]]


def wrap(fetch: Fetch, middlewares: Sequence[Middleware]) -> Fetch:
    """*fetch* inside all *middlewares*; the first is outermost."""
    for middleware in reversed(middlewares):
        fetch = _inside(middleware, fetch)
    return fetch


def _inside(middleware: Middleware, call_next: Fetch) -> Fetch:
    return lambda request: middleware(request, call_next)
