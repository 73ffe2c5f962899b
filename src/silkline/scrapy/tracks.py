"""Tracks: every leased request from the moment it is handed to Scrapy until its lease has a verdict.

Scrapy's engine has one place through which everything passes that the downloader gives back, be it a response, a failure
or another request (a retry, a redirect, whatever a middleware made of it): `_handle_downloader_output`. Its Deferred
fires when the callback, the spider middlewares and all item pipelines are through. So this is where we listen; and where
Scrapy's scraper tells of exceptions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
from scrapy import Request as ScrapyRequest
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from silkline.core.errors import ConfigError
from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, Verdict
from silkline.scrapy.ledger import Ledger

HOOKS = {"engine": ("_handle_downloader_output", "_slot"), "scraper": ("handle_spider_error", "call_spider_async")}


class Track:
    """One leased request that Scrapy has in hand."""

    __slots__ = ("error", "lease", "replacement", "result", "since")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.since = time.monotonic()
        self.result: Response | Failure | None = None
        self.error: Bury | None = None
        self.replacement: Request | None = None

    def verdict(self) -> Verdict:
        if self.error is not None:
            return self.error
        if self.replacement is not None:
            origin = self.lease.request.url  # as a redirect it is no deeper than what it replaces
            return Complete((msgspec.structs.replace(self.replacement, redirects=(origin,)),))
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

    def __len__(self) -> int:
        return len(self._by_request)

    def begin(self, request: ScrapyRequest, lease: Lease) -> None:
        self._by_request[request] = Track(lease)

    def replaced_by(self, request: ScrapyRequest) -> Track | None:
        """The track that Scrapy is just about to replace by *request*."""
        replacing = self._replacing
        return replacing[1] if replacing is not None and replacing[0] is request else None

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
        handle, spider_error, call = (
            engine._handle_downloader_output,  # noqa: SLF001 - see above
            scraper.handle_spider_error,
            scraper.call_spider_async,
        )

        def handle_output(result: Any, request: ScrapyRequest) -> Deferred[None]:
            track = self._by_request.get(request)
            if track is None:
                return handle(result, request)  # type: ignore[no-any-return]
            self._landed(track.lease if isinstance(result, Response) else None)
            if isinstance(result, ScrapyRequest):
                return self._replace(handle, result, request, track)
            track.result = result
            self._by_result[result] = track
            done: Deferred[None] = handle(result, request)
            return done.addBoth(self._ended, request, track)

        def handle_error(failure: Failure, request: ScrapyRequest, *args: Any, **kwargs: Any) -> Any:
            self._note_exception(request, failure)
            return spider_error(failure, request, *args, **kwargs)

        def call_spider(result: Any, request: ScrapyRequest, *args: Any, **kwargs: Any) -> Any:
            if type(result) is Failure:
                return self._call_errback(call, result, request, *args, **kwargs)
            return call(result, request, *args, **kwargs)

        engine._handle_downloader_output = handle_output  # noqa: SLF001
        scraper.handle_spider_error = handle_error
        scraper.call_spider_async = call_spider
        crawler.signals.connect(self._item_failed, signals.item_error)

    def _replace(
        self, handle: Callable[..., Any], result: ScrapyRequest, request: ScrapyRequest, track: Track
    ) -> Deferred[None]:
        """Let the engine schedule *result*; the scheduler asks us whether it replaces something."""
        if result.meta.get("retry_times", 0) != request.meta.get("retry_times", 0):
            self._ledger.note_retry()
        self._replacing = (result, track)
        try:
            done: Deferred[None] = handle(result, request)
        finally:
            self._replacing = None
        return done.addBoth(self._ended, request, track)

    def _ended(self, outcome: Any, request: ScrapyRequest, track: Track) -> Any:
        """Scrapy is through with it."""
        if isinstance(outcome, Failure) and track.error is None:
            track.error = _bury("", outcome)
        self._by_request.pop(request, None)
        if track.result is not None:
            self._by_result.pop(track.result, None)
        response = track.result if isinstance(track.result, Response) else None
        self._ledger.note_end(response, time.monotonic() - track.since, failed=track.error is not None)
        self._settle(track.lease, track.verdict())
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
                track.error = _bury("", failure)
            raise

    def _note_exception(self, request: ScrapyRequest, failure: Failure) -> None:
        track = self._by_request.get(request)
        if track is not None and not isinstance(failure.value, CloseSpider):
            track.error = _bury("", failure)

    def _item_failed(self, response: Any, failure: Failure) -> None:
        """A pipeline failed on an item: its page is kept where people see it."""
        track = self._by_result.get(response) if isinstance(response, Response | Failure) else None
        if track is not None and track.error is None:
            track.error = _bury("an item was not stored: ", failure)


def _bury(what: str, failure: Failure) -> Bury:
    return Bury(f"{what}{type(failure.value).__name__}: {failure.value}"[:500], None, failure.getTraceback())
