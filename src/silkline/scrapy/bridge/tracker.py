"""Tracks each request from the moment the scheduler returns it to Scrapy until its lease or start message has a verdict.

`engine_hooks` reports what Scrapy's engine does: what the downloader returns, exceptions of callbacks and errbacks, and the
output of callbacks.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from scrapy import Request as ScrapyRequest
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.python.reflect import safe_str

from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, RetryIn, Verdict
from silkline.errors import ForbiddenAddress
from silkline.runtime.places import Places
from silkline.scrapy.bridge import engine_hooks
from silkline.scrapy.bridge.engine_hooks import HandleOutput
from silkline.scrapy.bridge.worker_status import ScrapyCounters
from silkline.scrapy.convert.playwright import close_page
from silkline.scrapy.convert.slots import SLOT, is_automatic, mark_automatic

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
"""Attempts at a page whose callback raises `CloseSpider`."""


class HeldMessage:
    """A start message with requests that cannot be stored. It stays taken on the server until all of them have ended.

    *ended* is called then, with the error of the first that failed.
    """

    attempt = 0
    """It is unknown how often the message was taken."""

    def __init__(self, requests: int, ended: Callable[[Bury | RetryIn | None], None]) -> None:
        self._open = requests
        self._ended = ended
        self._error: Bury | RetryIn | None = None

    def settle(self, verdict: Verdict) -> None:
        """Note that one of its requests has ended."""
        self._open -= 1
        if self._error is None and isinstance(verdict, Bury | RetryIn):
            self._error = verdict
        if not self._open:
            self._ended(self._error)


Holder = Lease | HeldMessage
"""What brings a request back if this process dies."""


class TrackedRequest:
    """One request that Scrapy works on, and that comes back if this process dies."""

    __slots__ = ("claimed", "error", "holder", "passed_on", "replacement", "result", "since", "slotted", "touched")

    def __init__(self, holder: Holder, *, claimed: bool, slotted: bool) -> None:
        self.holder = holder
        self.slotted = slotted
        """Whether the project has chosen its download slot."""
        self.touched = slotted  # of others, the downloader writes the slot into the meta
        """Whether the downloader has begun with it. It has not if a middleware has replaced it before."""
        self.since = time.monotonic()
        self.claimed = claimed
        """False for a request that was never stored: it has taken over the lease of another one, or belongs to a message."""
        self.result: Response | Failure | None = None
        self.error: Bury | RetryIn | None = None
        self.replacement: Request | None = None
        self.passed_on = False
        """Whether a request that replaces this one and is not stored has taken over the lease or message."""

    def verdict(self) -> Verdict:
        if self.error is not None:
            return self.error
        if self.replacement is not None:
            return Complete((self.replacement,))
        return Complete()


class DownloadEnded(Protocol):
    """Called with the lease of a request that has a response, has none, or was replaced by another request (None)."""

    def __call__(self, lease: Lease, *, responded: bool | None) -> None: ...


class Tracker:
    """The requests that Scrapy works on.

    *places* decides how many requests of a host are sent at a time; None if the frontier alone does. *sent* is called with the lease of a request that is sent. *download_ended* is called when the downloader has ended with
    one. *settle* is called with each verdict. *counters* counts pages, errors and retries.
    """

    def __init__(
        self,
        places: Places | None,
        sent: Callable[[Lease], None],
        download_ended: DownloadEnded,
        settle: Callable[[Lease, Verdict], None],
        counters: ScrapyCounters,
    ) -> None:
        self._places = places
        self._waiting: dict[str, deque[tuple[Lease, Deferred[None]]]] = {}
        """Requests that wait in the downloader for a place, by host."""
        self._slots: engine_hooks.SlotLimits
        self._sent = sent
        self._download_ended = download_ended
        self._settle = settle
        self._counters = counters
        self._by_request: dict[ScrapyRequest, TrackedRequest] = {}
        self._by_result: dict[Response | Failure, TrackedRequest] = {}
        self._replacing: tuple[ScrapyRequest, TrackedRequest] | None = None
        self._found: set[ScrapyRequest] = set()

    def __len__(self) -> int:
        return len(self._by_request)

    def begin(self, request: ScrapyRequest, holder: Holder, *, claimed: bool = True) -> None:
        if is_automatic(request.meta):
            del request.meta[SLOT]
        self._by_request[request] = TrackedRequest(holder, claimed=claimed, slotted=SLOT in request.meta)

    def replaced_by(self, request: ScrapyRequest) -> TrackedRequest | None:
        """Return the tracked request that *request* replaces, while the engine schedules *request*."""
        replacing = self._replacing
        return replacing[1] if replacing is not None and replacing[0] is request else None

    def is_from_page(self, request: ScrapyRequest) -> bool:
        """Return whether a callback yielded *request*, while the engine schedules it. Its page would yield it again."""
        return request in self._found

    def note_http_error(self, response: Response, status: int) -> None:
        """Bury the request of a response with an error status that no errback has handled."""
        track = self._by_result.get(response)
        if track is not None and track.error is None:
            track.error = Bury(f"HTTP status {status}", status)

    # ── called by the hooks ──

    def listen(self, crawler: Crawler) -> None:
        """Install the hooks into the engine of *crawler*."""
        self._slots = engine_hooks.SlotLimits(crawler)
        if self._places:
            crawler.signals.connect(self._limit_slot, signals.request_reached_downloader)
        engine_hooks.watch_sends(crawler, self)
        engine_hooks.watch_downloads(crawler, self._handle)
        engine_hooks.watch_callback_errors(crawler, self._note_exception)
        engine_hooks.watch_errbacks(crawler, self._note_failed_errback)
        engine_hooks.watch_output(crawler, self._offered, self._output_failed, self._taken)
        crawler.signals.connect(self._item_failed, signals.item_error)

    def _limit_slot(self, request: ScrapyRequest) -> None:
        """Let Scrapy's downloader send as many requests of a host as this process has places there.

        So the next one starts in the very moment in which a page is downloaded. The downloader may start several at once, before it
        counts them; `ready` holds back those that are too many. It has written the name of the slot into the meta.
        """
        lease = self._lease_of(request)
        if self._places and lease is not None and SLOT in request.meta:
            self._slots.set(request.meta[SLOT], self._places.limit(lease.host))
            self._wake(lease.host)

    def _lease_of(self, request: ScrapyRequest) -> Lease | None:
        track = self._by_request.get(request)
        return track.holder if track is not None and isinstance(track.holder, Lease) else None

    @property
    def hold_back(self) -> bool:
        return self._places is not None

    def ready(self, request: ScrapyRequest) -> Deferred[None] | None:
        lease = self._lease_of(request)
        if lease is None:
            return None
        if self._places and not self._places.start(lease):
            waiting: Deferred[None] = Deferred()
            self._waiting.setdefault(lease.host, deque()).append((lease, waiting))
            return waiting.addCallback(lambda _: self._note_sent(request, lease))
        self._note_sent(request, lease)
        return None

    def _note_sent(self, request: ScrapyRequest, lease: Lease) -> None:
        if self._by_request[request].claimed:
            self._sent(lease)

    def ended(self, request: ScrapyRequest) -> None:
        lease = self._lease_of(request)
        if self._places and lease is not None:
            self._places.downloaded(lease)
            self._wake(lease.host)

    def _wake(self, host: str) -> None:
        """Start requests of a host that wait for a place, if it has one."""
        waiting = self._waiting.get(host)
        while self._places and waiting and self._places.start(waiting[0][0]):
            waiting.popleft()[1].callback(None)
        if not waiting:
            self._waiting.pop(host, None)

    def _handle(self, handle: HandleOutput, result: Any, request: ScrapyRequest) -> Deferred[None]:
        """The downloader has returned *result* for *request*."""
        track = self._by_request.get(request)
        if track is None:
            return handle(result, request)
        if track.claimed and isinstance(track.holder, Lease):
            replaced = isinstance(result, ScrapyRequest)
            self._download_ended(track.holder, responded=None if replaced else isinstance(result, Response))
            self._limit_slot(request)
        if not track.slotted:
            slot = request.meta.get(SLOT)
            track.touched = slot is not None
            mark_automatic(request.meta, slot)
            if isinstance(result, ScrapyRequest):
                mark_automatic(result.meta, slot)
        if isinstance(result, ScrapyRequest):
            return self._replace(handle, result, request, track)
        track.result = result
        self._by_result[result] = track
        return handle(result, request).addBoth(self._ended, request, track)

    def _replace(
        self, handle: HandleOutput, result: ScrapyRequest, request: ScrapyRequest, track: TrackedRequest
    ) -> Deferred[None]:
        """Let the engine schedule *result*. The scheduler calls `replaced_by` meanwhile."""
        if result.meta.get("retry_times", 0) != request.meta.get("retry_times", 0):
            self._counters.note_retry(request)
        self._replacing = (result, track)
        try:
            done = handle(result, request)
        finally:
            self._replacing = None
        return done.addBoth(self._ended, request, track)

    def _ended(self, outcome: Any, request: ScrapyRequest, track: TrackedRequest) -> Any:
        """Callback, middlewares and pipelines have ended: settle the lease."""
        if isinstance(outcome, Failure) and track.error is None:
            track.error = _failure_verdict(track.holder, outcome)
        self._by_request.pop(request, None)
        if track.result is not None:
            self._by_result.pop(track.result, None)
        response = track.result if isinstance(track.result, Response) else None
        self._counters.note_end(request, response, time.monotonic() - track.since, failed=track.error is not None)
        if not track.passed_on:
            self._end(track.holder, track.verdict())
        if track.error is not None or track.replacement is not None or track.passed_on:
            close_page(request)
        return outcome

    def _end(self, holder: Holder, verdict: Verdict) -> None:
        if isinstance(holder, HeldMessage):
            holder.settle(verdict)
        else:
            if self._places:
                self._places.downloaded(holder)  # if a middleware has replied, it never was
                self._wake(holder.host)
            self._settle(holder, verdict)

    def _note_failed_errback(self, request: ScrapyRequest, failure: Failure) -> None:
        """No errback has handled a failed download."""
        track = self._by_request.get(request)
        downloaded = track is not None and isinstance(track.result, Response)
        if (
            track is not None
            and not downloaded
            and track.error is None
            and (not isinstance(failure.value, IgnoreRequest) or isinstance(failure.value, ForbiddenAddress))
        ):
            track.error = _failure_verdict(track.holder, failure)

    def _note_exception(self, request: ScrapyRequest, failure: Failure) -> None:
        track = self._by_request.get(request)
        if track is not None and not (track.error and isinstance(failure.value, CloseSpider)):
            track.error = _failure_verdict(track.holder, failure)
            if not isinstance(failure.value, CloseSpider):
                self._counters.note_exception(request)

    def _item_failed(self, response: Any, failure: Failure) -> None:
        """A pipeline failed on an item: bury its page."""
        self._note(response, "an item was not stored: ", failure)

    def _offered(self, output: Any) -> None:
        if isinstance(output, ScrapyRequest):
            self._found.add(output)

    def _taken(self, output: Any) -> None:
        if isinstance(output, ScrapyRequest):
            self._found.discard(output)

    def _output_failed(self, failure: Failure, output: Any, response: Any) -> None:
        log.error("%s could not be processed, so its page is buried: %s", output, failure.getTraceback())
        self._note(response, "an output of its callback could not be processed: ", failure)

    def _note(self, response: Any, what: str, failure: Failure) -> None:
        track = self._by_result.get(response) if isinstance(response, Response | Failure) else None
        if track is not None and track.error is None:
            track.error = _failure_verdict(track.holder, failure, what)


def _failure_verdict(holder: Holder, failure: Failure, what: str = "") -> Bury | RetryIn:
    """Return the verdict on a page that failed: it is buried. A page whose callback raised `CloseSpider` is retried first."""
    error: Any = failure.value
    words = (
        error.reason if isinstance(error, CloseSpider) else safe_str(error)
    )  # str() of a project's exception may raise
    reason = f"{what}{type(error).__name__}: {words}"[:500]
    if isinstance(error, CloseSpider) and holder.attempt < MAX_ATTEMPTS:
        return RetryIn(0.0, reason)
    return Bury(reason, None, failure.getTraceback())
