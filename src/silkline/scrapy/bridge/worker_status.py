"""What a Scrapy process reports to its crawl: counters, pages in progress, and whether it obeys operators' orders."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.http import Response

from silkline.core.histogram import Histogram
from silkline.core.url import parse
from silkline.errors import RequestError
from silkline.frontier.verbs.history import Counts, HandlerCounts, coarse_counts
from silkline.frontier.verbs.workers import WorkerOrder
from silkline.runtime.counters import HostStatuses, of_handler
from silkline.runtime.presence import Orders
from silkline.scrapy.bridge.outbox import DEFAULT_CALLBACK, Outbox
from silkline.scrapy.bridge.prefetch import Prefetch

SILENT_AFTER = 15.0
"""Seconds after which a blocked reactor is reported."""


class ReactorProbe:
    """Measures for how long the reactor has been blocked."""

    def __init__(self, call_reactor: Callable[[Callable[[], None]], None]) -> None:
        self._call_reactor = call_reactor
        self._asked: float | None = None

    def silent_seconds(self) -> float:
        """Return for how many seconds the reactor has not run a call of this probe. If it has run the last, call again."""
        asked = self._asked
        if asked is not None:
            return time.monotonic() - asked
        self._asked = time.monotonic()
        self._call_reactor(self._answer)
        return 0.0

    def _answer(self) -> None:
        """Runs on the reactor."""
        self._asked = None


class ScrapyWorker:
    """A Scrapy process as `Presence` reports it and passes orders to it. Everything runs on the bridge's loop.

    *stop* closes the spider when its requests have ended.
    """

    def __init__(
        self,
        prefetch: Prefetch,
        outbox: Outbox,
        counters: ScrapyCounters,
        probe: ReactorProbe,
        stop: Callable[[], None],
    ) -> None:
        self._prefetch = prefetch
        self._outbox = outbox
        self._counters = counters
        self._probe = probe
        self._stop = stop
        self._stopping = False
        self._orders = Orders(self._apply_quiet, self.stop)

    @property
    def concurrency(self) -> int:
        return self._prefetch.limit

    @property
    def counts(self) -> Counts:
        """The counters of Scrapy and of the outbox."""
        return Counts().add(self._counters.counts).add(self._outbox.counts)

    @property
    def handlers(self) -> dict[str, HandlerCounts]:
        """The counters by callback, of Scrapy and of the outbox."""
        merged: dict[str, HandlerCounts] = {}
        for name, counts in (*self._counters.handlers.copy().items(), *self._outbox.handlers.items()):
            of_handler(merged, name).add(counts)
        return merged

    @property
    def host_statuses(self) -> HostStatuses:
        return self._counters.host_statuses

    @property
    def in_flight(self) -> int:
        return len(self._prefetch.in_progress())

    @property
    def urls(self) -> list[str]:
        """The URLs of the requests that Scrapy works on, the oldest first."""
        return [lease.url for lease in self._prefetch.in_progress()]

    @property
    def stall(self) -> str | None:
        silent = self._probe.silent_seconds()
        return f"the reactor has been blocked for {silent:.0f} s" if silent > SILENT_AFTER else None

    @property
    def doing(self) -> str:
        if self._stopping:
            return "stopping"
        return "quiet" if self._orders.quiet else "working"

    def stop(self) -> None:
        """Claim nothing more, and close the spider when the requests it holds have ended."""
        self._stopping = True
        self._prefetch.pause()
        self._stop()

    def obey(self, order: WorkerOrder) -> None:
        """Follow an operator's order: claim nothing more, claim again, or close the spider."""
        if not self._stopping:
            self._orders.obey(order)

    def _apply_quiet(self) -> None:
        if self._orders.quiet:
            self._prefetch.pause()
        else:
            self._prefetch.resume()


class ScrapyCounters:
    """Counts what Scrapy does, for the history of the crawl. Counts on the reactor; `counts` may be read in any thread."""

    def __init__(self) -> None:
        self._counts = Counts()
        self._latency = Histogram()
        self._busy_seconds = 0.0
        self.handlers: dict[str, HandlerCounts] = {}
        """Pages, items and failed attempts by callback."""
        self.host_statuses = HostStatuses()
        """Response statuses by host, since the last report."""

    @property
    def counts(self) -> Counts:
        """All counts so far."""
        latency = msgspec.structs.replace(self._latency, counts=self._latency.counts.copy())
        return msgspec.structs.replace(
            self._counts,
            fetched=latency.count,
            fetch_ms=round(latency.seconds * 1000),
            busy_ms=round(self._busy_seconds * 1000),
            **coarse_counts(latency),
        )

    # ── on the reactor ──

    def listen(self, crawler: Crawler) -> None:
        crawler.signals.connect(self._note_response, signals.response_downloaded)
        crawler.signals.connect(self._note_item, signals.item_scraped)

    def _note_response(self, response: Response, request: Request) -> None:
        """Count a response, before middlewares follow a redirect or retry."""
        name = f"status_{response.status // 100}xx"
        if name in _STATUSES:
            setattr(self._counts, name, getattr(self._counts, name) + 1)
        latency: Any = request.meta.get("download_latency")
        if isinstance(latency, float | int):
            self._latency.note(latency)
        with suppress(RequestError):  # URLs such as data: and file:
            self.host_statuses.note(parse(request.url).host, response.status)

    def _note_item(self, response: Response | None) -> None:
        self._counts.items += 1
        if response is not None and response.request is not None:  # else a start method has yielded it
            self._handler_of(response.request).items += 1

    def _handler_of(self, request: Request) -> HandlerCounts:
        return of_handler(self.handlers, getattr(request.callback, "__name__", DEFAULT_CALLBACK))

    def note_end(self, request: Request, response: Response | None, seconds: float, *, failed: bool) -> None:
        """Count a request on which Scrapy has worked for *seconds*, with its response, if there is one."""
        self._busy_seconds += seconds
        if response is not None:
            self._counts.bytes += len(response.body)
        if failed:
            self._counts.errors += 1
        elif response is not None:
            self._counts.pages += 1
            self._handler_of(request).pages += 1

    def note_exception(self, request: Request) -> None:
        """Count an exception of the callback of a request."""
        self._handler_of(request).exceptions += 1

    def note_retry(self, request: Request) -> None:
        """Count a retry of Scrapy's RetryMiddleware."""
        self._handler_of(request).failures += 1
        self._counts.retried += 1
        self._counts.errors += 1


_STATUSES = frozenset(name for name in Counts.__struct_fields__ if name.startswith("status_"))
