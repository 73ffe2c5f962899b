"""Tracks: every leased request from the moment it is handed to Scrapy until its lease has a verdict.

Scrapy's engine has one place through which everything passes that the downloader gives back, be it a response, a failure
or another request (a retry, a redirect, whatever a middleware made of it): `_handle_downloader_output`. Its Deferred
fires when the callback, the spider middlewares and all item pipelines are through. So this is where we listen; and where
Scrapy's scraper tells of exceptions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from scrapy import Request as ScrapyRequest
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.python.reflect import safe_str

from silkline.core.errors import ConfigError
from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, RetryIn, Verdict
from silkline.scrapy.browser import close_page
from silkline.scrapy.ledger import Ledger

log = logging.getLogger(__name__)

TRIES = 3
"""How often a page is tried that its spider was stopped at."""
HOOKS = {"engine": ("_handle_downloader_output", "_slot"), "scraper": ("handle_spider_error", "call_spider_async")}


class Track:
    """One leased request that Scrapy has in hand."""

    __slots__ = ("claimed", "error", "lease", "passed_on", "replacement", "result", "since")

    def __init__(self, lease: Lease, *, claimed: bool) -> None:
        self.lease = lease
        self.since = time.monotonic()
        self.claimed = claimed
        """Whether it was just claimed; else it replaces, in this process, one that was."""
        self.result: Response | Failure | None = None
        self.error: Bury | RetryIn | None = None
        self.replacement: Request | None = None
        self.passed_on = False
        """Whether the lease is another request's by now, which replaces this one and cannot be stored."""

    def verdict(self) -> Verdict:
        if self.error is not None:
            return self.error
        if self.replacement is not None:
            return Complete((self.replacement,))
        return Complete()


class Tracks:
    """The requests in hand. *landed* is told when a download ended, *settle* of every verdict, the *ledger* of what was done."""

    def __init__(
        self, landed: Callable[[Lease | None], None], settle: Callable[[Lease, Verdict], None], ledger: Ledger
    ) -> None:
        self._landed = landed
        self._settle = settle
        self._ledger = ledger
        self._by_request: dict[ScrapyRequest, Track] = {}
        self._by_result: dict[Response | Failure, Track] = {}
        self._replacing: tuple[ScrapyRequest, Track] | None = None
        self._found: set[ScrapyRequest] = set()

    def __len__(self) -> int:
        return len(self._by_request)

    def begin(self, request: ScrapyRequest, lease: Lease, *, claimed: bool = True) -> None:
        self._by_request[request] = Track(lease, claimed=claimed)

    def replaced_by(self, request: ScrapyRequest) -> Track | None:
        """The track that Scrapy is just about to replace by *request*."""
        replacing = self._replacing
        return replacing[1] if replacing is not None and replacing[0] is request else None

    def found_on_a_page(self, request: ScrapyRequest) -> bool:
        """Whether a page gave *request*, which Scrapy is just about to schedule: then it would give it again."""
        return request in self._found

    def note_http_error(self, response: Response, status: int) -> None:
        """Nobody handles this response: its status is an error."""
        track = self._by_result.get(response)
        if track is not None and track.error is None:
            track.error = Bury(f"HTTP status {status}", status)

    # ── listening to Scrapy ──

    def listen(self, crawler: Crawler) -> None:
        """Hook into the engine of *crawler*, or say which part of it is not as we know it."""
        engine: Any = crawler.engine
        scraper = engine.scraper
        for place, names in HOOKS.items():
            missing = [name for name in names if not hasattr(engine if place == "engine" else scraper, name)]
            if missing:
                raise ConfigError(
                    f"this Scrapy has no {missing[0]} in its {place}: Silkline needs another version of it"
                )
        spider_error, call = scraper.handle_spider_error, scraper.call_spider_async

        def handle_error(failure: Failure, request: ScrapyRequest, *args: Any, **kwargs: Any) -> Any:
            self._note_exception(request, failure)
            return spider_error(failure, request, *args, **kwargs)

        def call_spider(result: Any, request: ScrapyRequest, *args: Any, **kwargs: Any) -> Any:
            if type(result) is Failure:
                return self._call_errback(call, result, request, *args, **kwargs)
            return call(result, request, *args, **kwargs)

        engine._handle_downloader_output = partial(self._handle, engine._handle_downloader_output)  # noqa: SLF001
        scraper.handle_spider_error = handle_error
        scraper.call_spider_async = call_spider
        crawler.signals.connect(self._item_failed, signals.item_error)
        self._watch_output(scraper)

    def _handle(self, handle: Callable[..., Deferred[None]], result: Any, request: ScrapyRequest) -> Deferred[None]:
        """Scrapy's downloader has come to an end with *request*."""
        track = self._by_request.get(request)
        if track is None:
            return handle(result, request)
        if track.claimed:
            self._landed(track.lease if isinstance(result, Response) else None)
        if isinstance(result, ScrapyRequest):
            return self._replace(handle, result, request, track)
        track.result = result
        self._by_result[result] = track
        return handle(result, request).addBoth(self._ended, request, track)

    def _watch_output(self, scraper: Any) -> None:
        """Watch what pages give being taken.

        Scrapy takes it for granted that it can be scheduled, and would forget in silence what cannot be.
        """
        if hasattr(scraper, "_process_spidermw_output_async"):
            process_async = scraper._process_spidermw_output_async  # noqa: SLF001

            async def watch_async(output: Any, response: Any) -> None:
                self._offered(output)
                try:
                    await process_async(output, response)
                except Exception as error:  # noqa: BLE001 - noted
                    self._output_failed(failure_of(error), output, response)
                finally:
                    self._taken(None, output)

            scraper._process_spidermw_output_async = watch_async  # noqa: SLF001
        else:  # before Scrapy 2.14
            process = scraper._process_spidermw_output  # noqa: SLF001

            def watch(output: Any, response: Any) -> Any:
                self._offered(output)
                done = process(output, response).addErrback(self._output_failed, output, response)
                return done.addBoth(self._taken, output)

            scraper._process_spidermw_output = watch  # noqa: SLF001

    def _replace(
        self, handle: Callable[..., Deferred[None]], result: ScrapyRequest, request: ScrapyRequest, track: Track
    ) -> Deferred[None]:
        """Let the engine schedule *result*; the scheduler asks us whether it replaces something."""
        if result.meta.get("retry_times", 0) != request.meta.get("retry_times", 0):
            self._ledger.note_retry()
        self._replacing = (result, track)
        try:
            done = handle(result, request)
        finally:
            self._replacing = None
        return done.addBoth(self._ended, request, track)

    def _ended(self, outcome: Any, request: ScrapyRequest, track: Track) -> Any:
        """Scrapy is through with it."""
        if isinstance(outcome, Failure) and track.error is None:
            track.error = _ending(track.lease, outcome)
        self._by_request.pop(request, None)
        if track.result is not None:
            self._by_result.pop(track.result, None)
        response = track.result if isinstance(track.result, Response) else None
        self._ledger.note_end(response, time.monotonic() - track.since, failed=track.error is not None)
        if not track.passed_on:
            self._settle(track.lease, track.verdict())
        if track.error is not None or track.replacement is not None or track.passed_on:
            close_page(request)
        return outcome

    async def _call_errback(
        self, call: Callable[..., Any], failure: Failure, request: ScrapyRequest, *args: Any, **kwargs: Any
    ) -> Any:
        """Call the errback, and take note if it leaves a failed download as it is."""
        try:
            return await call(failure, request, *args, **kwargs)
        except Exception:
            track = self._by_request.get(request)
            downloaded = track is not None and isinstance(track.result, Response)
            if (
                track is not None
                and not downloaded
                and track.error is None
                and not isinstance(failure.value, IgnoreRequest)
            ):
                track.error = _ending(track.lease, failure)
            raise

    def _note_exception(self, request: ScrapyRequest, failure: Failure) -> None:
        track = self._by_request.get(request)
        if track is not None and not (track.error and isinstance(failure.value, CloseSpider)):
            track.error = _ending(track.lease, failure)

    def _item_failed(self, response: Any, failure: Failure) -> None:
        """A pipeline failed on an item: its page is kept where people see it."""
        self._note(response, "an item was not stored: ", failure)

    def _offered(self, output: Any) -> None:
        if isinstance(output, ScrapyRequest):
            self._found.add(output)

    def _taken(self, outcome: Any, output: Any) -> Any:
        if isinstance(output, ScrapyRequest):
            self._found.discard(output)
        return outcome

    def _output_failed(self, failure: Failure, output: Any, response: Any) -> None:
        log.error("%s was not taken, so its page is buried: %s", output, failure.getTraceback())
        self._note(response, "what it gave was not taken: ", failure)

    def _note(self, response: Any, what: str, failure: Failure) -> None:
        track = self._by_result.get(response) if isinstance(response, Response | Failure) else None
        if track is not None and track.error is None:
            track.error = _ending(track.lease, failure, what)


def failure_of(error: Exception) -> Failure:
    return Failure(error)  # type: ignore[no-untyped-call]


def _ending(lease: Lease, failure: Failure, what: str = "") -> Bury | RetryIn:
    """How a page ends that failed: buried; but put back if the spider was stopped at it, unless that goes on and on."""
    error: Any = failure.value
    words = (
        error.reason if isinstance(error, CloseSpider) else safe_str(error)
    )  # whatever a project's exceptions do when asked
    reason = f"{what}{type(error).__name__}: {words}"[:500]
    if isinstance(error, CloseSpider) and lease.attempt < TRIES:
        return RetryIn(0.0, reason)
    return Bury(reason, None, failure.getTraceback())
