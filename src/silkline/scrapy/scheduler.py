"""`Scheduler`: Scrapy's scheduler on a frontier. Its methods never block: the bridge talks to the server."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from typing import Any, Self, cast

import msgspec
from scrapy import Request as ScrapyRequest
from scrapy import Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, Verdict
from silkline.errors import RequestError, SilklineError
from silkline.runtime.memory import relieve_garbage_collector
from silkline.runtime.settling import RecentSet
from silkline.scrapy import guard
from silkline.scrapy.bridge.bridge import Bridge, BridgeEvents
from silkline.scrapy.bridge.engine_hooks import (
    check_engine,
    close_spider,
    fail_process,
    on_closing,
    run_by_tool,
    share_the_reactor,
    wake,
    warn_without_middlewares,
)
from silkline.scrapy.bridge.outbox import DeliveryReport
from silkline.scrapy.bridge.start_errors import report_start_error, reported_start_errors
from silkline.scrapy.bridge.tool_scheduler import tool_scheduler
from silkline.scrapy.bridge.tracker import HeldMessage, Holder, TrackedRequest, Tracker
from silkline.scrapy.convert import messages
from silkline.scrapy.convert.classes import UnstorableValue, load_classes
from silkline.scrapy.convert.playwright import PAGE
from silkline.scrapy.convert.requests import check_storable, to_core, to_scrapy
from silkline.scrapy.convert.settings import PluginOptions, check_settings, warn_of_unused_params
from silkline.scrapy.convert.slots import queue_of
from silkline.scrapy.dupefilter import IdentifyRequest, RFPDupeFilter, find_filter, fingerprints_by_url
from silkline.scrapy.queue import FrontierQueue
from silkline.scrapy.scheduler_compat import SchedulerCompat

log = logging.getLogger(__name__)

MAX_KNOWN = 100_000


class Scheduler(SchedulerCompat, BaseScheduler):
    """Scrapy's scheduler on a frontier.

    A request that `next_request` returns stays leased until its callback and the item pipelines have ended. If the process
    dies before that, another worker gets the request.
    """

    df: Any
    queue: FrontierQueue

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.stats: Any = crawler.stats
        self._known: RecentSet[bytes | str] = RecentSet(MAX_KNOWN)
        """Identities that were enqueued recently; also URLs as they were written, if a fingerprint depends on the URL only.
        So most duplicates are found without a fingerprint. The frontier's seen filter decides about all others."""
        self._losses = 0
        """`Bridge.losses` when `_known` was last used."""
        self._in_memory: deque[tuple[ScrapyRequest, Holder | None]] = deque()
        """Requests that are not stored, with the lease or the start message that brings them back, if any."""
        self._at_once: deque[tuple[ScrapyRequest, Lease]] = deque()
        """Requests that begin in the start window of the request that they replace, which was not downloaded."""
        self._closed = False
        self._tracker: Tracker
        self._identify: IdentifyRequest | None = None
        self._by_url = False
        self._by_priority = True
        self._gc_freeze = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return a scheduler on the frontier; for Scrapy's command-line tools one in memory, which is not of this class."""
        if run_by_tool(crawler):
            guard.install(crawler.settings)
            return cast("Self", tool_scheduler(crawler))
        return cls(crawler)

    # ── opening and closing ──

    def open(self, spider: Spider) -> Deferred[None]:
        """Open the crawl. Scrapy waits for the Deferred."""
        self.spider = spider
        with reported_start_errors(self.crawler):
            options = check_settings(self.crawler.settings, spider)
            opening = self._open(replace(options, persist=self.persist))
        return opening.addCallback(self._opened).addErrback(self._not_opened)

    def _open(self, options: PluginOptions) -> Deferred[None]:
        check_engine(self.crawler)
        self._by_priority, self._gc_freeze = options.by_priority, options.gc_freeze
        if self.crawler.settings.get("SCHEDULER_SERIALIZER"):
            log.warning("SCHEDULER_SERIALIZER is ignored: requests are stored as msgpack and never pickled")
        warn_of_unused_params(self.crawler.settings)
        guard.install(self.crawler.settings)
        load_classes(self.crawler.settings)
        self.df, self._identify = find_filter(self.crawler)
        self._by_url = fingerprints_by_url(self.df)
        self.queue = FrontierQueue(self)
        warn_without_middlewares(self.crawler)
        events = BridgeEvents(self._on_report, self._on_change, self._on_failure, self._stop)
        self.bridge = bridge = Bridge(self.crawler, options, events)
        prefetch = bridge.prefetch
        self._tracker = Tracker(
            prefetch.places if prefetch.holds_reserve else None,
            prefetch.sent,
            prefetch.download_ended,
            bridge.settle,
            bridge.counters,
        )
        self._tracker.listen(self.crawler)
        bridge.counters.listen(self.crawler)
        return bridge.open()

    def _opened(self, _: None) -> Any:
        on_closing(self.crawler, self.bridge.give_back)
        share_the_reactor(self.crawler, self.bridge.call_reactor)
        self._clear_project_filter()
        if self._gc_freeze:
            relieve_garbage_collector()
        log.info("%s", self.bridge.description, extra={"spider": self.spider})
        if self.bridge.resumed:
            log.info("Resuming crawl (%d requests scheduled)", self.bridge.resumed, extra={"spider": self.spider})
        return self.df.open() if hasattr(self.df, "open") else None

    def _not_opened(self, failure: Failure) -> Any:
        report_start_error(self.crawler, failure.value)
        if self.bridge.is_open:  # the project's filter has failed
            return self.bridge.close().addCallback(lambda _: failure)
        return failure

    def close(self, reason: str) -> Deferred[None] | None:
        """Leave the crawl. Without SCHEDULER_PERSIST, the last worker removes it."""
        self._closed = True
        if not hasattr(self, "bridge"):
            return None  # the scheduler did not open
        if self._in_memory:
            lost = sum(holder is None for _, holder in self._in_memory)
            log.warning(
                "%d requests that could not be stored were not started; %d of them are lost", len(self._in_memory), lost
            )
        if hasattr(self.df, "close") and not isinstance(self.df, RFPDupeFilter):  # as scrapy-redis does
            self.df.close(reason)
        self.bridge.emptied = False
        return self.bridge.close().addCallback(lambda _: self._clear_project_filter())

    def _clear_project_filter(self) -> None:
        """Clear a filter that keeps its own seen set if the crawl was removed, as scrapy-redis does."""
        if self._identify is None and self.bridge.emptied and hasattr(self.df, "clear"):
            self.df.clear()

    @property
    def tracker(self) -> Tracker:
        """The requests that Scrapy works on."""
        return self._tracker

    # ── requests ──

    def enqueue_request(self, request: ScrapyRequest) -> bool:
        """Store a request soon. Returns False if this process knows that it was seen."""
        if self._closed:
            log.error("%s is not stored: the spider has closed", request, extra={"spider": self.spider})
            return False
        identity = b""
        if not request.dont_filter:
            known = self._identity(request)
            if known is None:
                self.df.log(request, self.spider)
                return False
            identity = known
        replaced = self._tracker.replaced_by(request)
        if replaced is not None:
            request.meta.pop(PAGE, None)  # the browser page belongs to the failed attempt
            if isinstance(replaced.holder, HeldMessage):
                return self._continue_in_memory(request, replaced)
            if not replaced.touched and queue_of(request.meta, request.url) == replaced.holder.host:
                return self._start_instead(request, replaced, replaced.holder)
        elif identity:
            self._known.add(identity)
        try:
            stored = self._convert(request, identity, replaced)
        except RequestError as error:
            return self._keep_in_memory(request, error, replaced)
        if replaced is not None:
            replaced.replacement = stored
        else:
            self.bridge.outbox.push(stored, start=not self._tracker.is_from_page(request))
        self.stats.inc_value("scheduler/enqueued/redis")
        return True

    def push(self, request: ScrapyRequest) -> None:
        """Store a request soon, even if it was seen before."""
        stored = to_core(request, self.spider)
        stored = msgspec.structs.replace(stored, dont_filter=True, meta={**stored.meta, "d": request.dont_filter})
        self.bridge.outbox.push(stored, start=True)

    def _identity(self, request: ScrapyRequest) -> bytes | None:
        """Return the fingerprint of a request; None if this process knows that it was seen."""
        if self._identify is None:
            return None if self.df.request_seen(request) else b""
        if self.bridge.losses != self._losses:  # the server may have lost what was enqueued
            self._losses = self.bridge.losses
            self._known.clear()
        known, url = self._known, request.url
        plain = self._by_url and request.method == "GET" and not request.body and "verbatim_url" not in request.meta
        if plain and url in known:
            return None
        identity = self._identify(request)
        if identity in known:
            if plain:
                known.add(url)  # next time without a fingerprint
            return None
        return identity

    def _convert(self, request: ScrapyRequest, identity: bytes, replaced: TrackedRequest | None = None) -> Request:
        stored = to_core(request, self.spider, identity)
        if self._identify is None and not stored.dont_filter:  # a filter of the project's own has decided
            stored = msgspec.structs.replace(stored, dont_filter=True, meta={**stored.meta, "d": False})
        if not self._by_priority and stored.priority:
            stored = msgspec.structs.replace(stored, priority=0, meta={**stored.meta, "p": request.priority})
        if replaced is not None and isinstance(replaced.holder, Lease):  # as with a redirect, the depth stays
            stored = msgspec.structs.replace(stored, redirects=(replaced.holder.request.url,))
        check_storable(stored)
        return stored

    def _keep_in_memory(self, request: ScrapyRequest, error: RequestError, replaced: TrackedRequest | None) -> bool:
        """Keep a request that cannot be stored in memory, and log an error.

        If it replaces another request, it takes over its lease: if this process dies, that request is retried.
        """
        text = str(error) if isinstance(error, UnstorableValue) else f"{request} cannot be stored: {error}"
        then = "it is lost" if replaced is None else "the request that it replaces is retried"
        log.error("%s. It is kept in memory: if this process dies, %s", text, then, extra={"spider": self.spider})
        self.stats.inc_value("scheduler/unserializable")
        if replaced is not None:
            return self._continue_in_memory(request, replaced)
        self._in_memory.append((request, None))
        return True

    def _continue_in_memory(self, request: ScrapyRequest, replaced: TrackedRequest) -> bool:
        """Let a request take over the lease or the start message of the request that it replaces."""
        replaced.passed_on = True
        self._in_memory.append((request, replaced.holder))
        return True

    def _start_instead(self, request: ScrapyRequest, replaced: TrackedRequest, lease: Lease) -> bool:
        """Start a request with the lease of the request that it replaces: one turn of their queue is enough for both.

        So a middleware of a render service, which sends the page of a site to the service, costs the site no second delay.
        """
        replaced.passed_on = True
        self._at_once.append((request, lease))
        self.stats.inc_value("scheduler/enqueued/redis")
        return True

    def keep_of_message(self, request: ScrapyRequest, error: RequestError, message: HeldMessage) -> None:
        """Crawl a request of a start message from memory, because it cannot be stored."""
        text = str(error) if isinstance(error, UnstorableValue) else f"{request} cannot be stored: {error}"
        log.warning(
            "%s. It is kept in memory: if this process dies, its start message is read again",
            text,
            extra={"spider": self.spider},
        )
        self.stats.inc_value("scheduler/unserializable")
        self._in_memory.append((request, message))
        wake(self.crawler)

    def next_request(self) -> ScrapyRequest | None:
        """Return a request to download, if one was claimed."""
        if self._at_once:
            request, held = self._at_once.popleft()
            self._tracker.begin(request, held, claimed=False)
            self.stats.inc_value("scheduler/dequeued/redis")
            return request
        while (lease := self.bridge.prefetch.take()) is not None:
            claimed = self._read(lease)
            if claimed is not None:
                self._tracker.begin(claimed, lease)
                self.stats.inc_value("scheduler/dequeued/redis")
                return claimed
        return self._next_in_memory() if self._in_memory else None

    def _next_in_memory(self) -> ScrapyRequest:
        request, holder = self._in_memory.popleft()
        if holder is not None:
            self._tracker.begin(request, holder, claimed=False)
        return request

    def prepare(self, request: ScrapyRequest) -> Request:
        """Return a request of a start message as the frontier stores it. Raises `RequestError` if it cannot be stored."""
        filtered = self._identify is not None and not request.dont_filter
        return self._convert(request, self._identify(request) if self._identify and filtered else b"")

    def _read(self, lease: Lease) -> ScrapyRequest | None:
        """Return the leased request as a request of Scrapy. If this spider cannot use it, it becomes a dead letter."""
        if lease.request.handler == messages.HANDLER:
            self._read_message(lease)
            return None
        try:
            return to_scrapy(lease.request, self.spider)
        except RequestError as error:
            reason = str(error)
        except Exception as error:
            log.exception("%s cannot be read", lease.url, extra={"spider": self.spider})
            reason = f"the stored request cannot be read: {type(error).__name__}: {error}"
        log.error("%s is buried: %s", lease.url, reason, extra={"spider": self.spider})
        self.bridge.prefetch.not_sent(lease)
        self.bridge.settle(lease, Bury(reason[:500]))
        return None

    def _read_message(self, lease: Lease) -> None:
        """Read a start message again that could not be read before: it may have been revived. If it fails, bury it."""
        verdict: Verdict = Complete()
        try:
            for request in [self.prepare(one) for one in messages.read_again(self.spider, lease.request.body)]:
                self.bridge.outbox.push(request)
        except Exception as error:  # noqa: BLE001 - the spider's own code reads it
            verdict = Bury(f"not a start message: {messages.reason_of(error)}"[:500])
        self.bridge.prefetch.not_sent(lease)
        self.bridge.settle(lease, verdict)

    def has_pending_requests(self) -> bool:
        """Return whether something is left to do, for this worker or any other."""
        return bool(self._in_memory or self._at_once) or not self.bridge.idle.finished

    def __len__(self) -> int:
        """Return the number of requests that wait in the crawl. Blocks until the server replies."""
        return len(self.queue)

    def __bool__(self) -> bool:
        return True  # without `__len__`, which blocks

    # ── called by the bridge, on the reactor ──

    def _on_change(self) -> None:
        wake(self.crawler)

    def _on_report(self, report: DeliveryReport) -> None:
        if report.seen:
            self._count_seen(report.seen)
        if report.refused or report.full:
            self._known.clear()
        for refusal in report.refused:
            log.error("%s was refused: %s", _name(refusal.request), refusal.reason, extra={"spider": self.spider})
            self.stats.inc_value("scheduler/refused")
        if report.full:
            self.stats.inc_value("scheduler/full", len(report.full))
            log.warning(
                "the crawl is full: %d requests did not fit; they or their pages are retried. Set SILKLINE_OVERFLOW to let"
                " them wait on disk",
                len(report.full),
            )
        if report.spilled:
            self.stats.inc_value("scheduler/spilled", report.spilled)
        if report.lost:
            self.stats.inc_value("scheduler/lost", len(report.lost))

    def _count_seen(self, seen: list[Request]) -> None:
        self.stats.inc_value("dupefilter/filtered", len(seen))
        if getattr(self.df, "debug", False):
            for request in seen:
                log.debug("Filtered duplicate request: %s", _name(request), extra={"spider": self.spider})

    def _on_failure(self, error: SilklineError) -> None:
        """Close the spider: the crawl was removed, or a later version of Silkline has written it."""
        log.error("the spider closes: %s", error, extra={"spider": self.spider})
        fail_process(self.crawler)
        close_spider(self.crawler, self.spider, "silkline_error")

    def _stop(self) -> None:
        close_spider(self.crawler, self.spider, "stopped by an operator")


def _name(request: object) -> str:
    return f"<{request.method} {request.url}>" if isinstance(request, Request) else str(request)
