"""Recording: collects what attempts send and receive, if the crawl has an archive."""

from __future__ import annotations

import time
from contextvars import ContextVar

from silkline.core.request import Request
from silkline.fetch.browser.rendered import RenderedResponse
from silkline.fetch.cache import CachedResponse
from silkline.fetch.fetcher import Received, Response
from silkline.sinks.archive.exchange import Exchange
from silkline.worker.crawl.handlers import Fetch

_exchanges: ContextVar[list[Exchange] | None] = ContextVar("exchanges", default=None)
"""The exchanges of the attempt that runs in this context. Middleware may make several, also in tasks that it starts."""


def record_into(exchanges: list[Exchange]) -> None:
    """Add all further exchanges of this task to *exchanges*."""
    _exchanges.set(exchanges)


def recorded(fetch: Fetch) -> Fetch:
    """Return *fetch*, which records each response for the attempt that it belongs to."""

    async def fetch_and_record(request: Request) -> Response:
        began = time.time()
        response = await fetch(request)
        if isinstance(response, CachedResponse):
            began = response.fetched_at
        if (exchanges := _exchanges.get()) is not None:
            fetched_at = response.fetched_at if isinstance(response, CachedResponse) else began
            exchanges.append(exchange_of(request, response, fetched_at))
        return response

    return fetch_and_record


def exchange_of(request: Request, response: Response, began: float) -> Exchange:
    """Return the exchange of a request and its response. Of a rendered page, it has what the web server sent."""
    if isinstance(response, RenderedResponse) and response.original is not None:
        response = response.original
    received = response.received or Received(tuple(request.headers.items()), response.body, is_cut=False)
    return Exchange(
        method=request.method,
        url=request.url,
        sent=received.sent,
        request_body=request.body or b"",
        status=response.status,
        headers=response.headers.pairs,
        http_version=response.http_version,
        body=received.body,
        is_decoded=response.received is None,
        is_cut=received.is_cut,
        began=began,
        address=received.address,
    )
