"""Scheduler: what Scrapy asks for requests and hands requests to. It answers at once, out of the bridge."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Self

import msgspec
from scrapy import Request as ScrapyRequest
from scrapy import Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.utils.misc import load_object
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from silkline.core.errors import RequestError, SilklineError
from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, Verdict
from silkline.scrapy import messages
from silkline.scrapy.bridge import Bridge
from silkline.scrapy.browser import PAGE
from silkline.scrapy.dupefilter import Identify, RFPDupeFilter, find_filter, is_by_url
from silkline.scrapy.engine import close_spider, on_closing, wake, warn_without_middlewares
from silkline.scrapy.familiar import Familiar
from silkline.scrapy.options import Options
from silkline.scrapy.outbox import News
from silkline.scrapy.queue import Queue
from silkline.scrapy.requests import check_storable, to_core, to_scrapy
from silkline.scrapy.tracks import Track, Tracks
from silkline.scrapy.values import UnstorableValue
from silkline.worker.recent import Recent

log = logging.getLogger(__name__)

KNOWN = 100_000


class Scheduler(Familiar, BaseScheduler):
    """Scrapy's scheduler on a frontier.

    A request that is handed out stays leased until its response has been through the callback and the item pipelines. If
    the process dies before that, it is handed out again, to whoever asks.
    """

    df: Any
    queue: Queue

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.stats: Any = crawler.stats
        self._known: Recent[bytes | str] = Recent(KNOWN)
        """What was offered lately: identities, and where nothing but the URL makes the identity, URLs as they were written,
        so that most duplicates are told without a fingerprint. The frontier has the last word."""
        self._here: deque[tuple[ScrapyRequest, Lease | None]] = deque()
        """Requests that cannot be stored, with the lease of what they replace, if they do."""
        self._closed = False
        self._tracks: Tracks
        self._identify: Identify | None = None
        self._by_url = False
        self._by_priority = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    # ── opening and closing ──

    def open(self, spider: Spider) -> Deferred[None]:
        """Open the crawl; Scrapy waits for it, and for nothing after that."""
        self.spider = spider
        try:
            opening = self._open(Options.read(self.crawler.settings, spider))
        except SilklineError as error:
            self._say_why_not(error)
            raise
        return opening.addCallbacks(self._opened, self._not_opened)

    def _open(self, options: Options) -> Deferred[None]:
        self._by_priority = options.by_priority
        self.df, self._identify = find_filter(self.crawler)
        self._by_url = is_by_url(self.df)
        self.bridge = Bridge(self.crawler, options)
        self.queue = load_object(self.crawler.settings.get("SCHEDULER_QUEUE_CLASS") or Queue)(self)
        self._tracks = Tracks(self.bridge.landed, self.bridge.settle, self.bridge.ledger)
        self._tracks.listen(self.crawler)
        self.bridge.ledger.listen(self.crawler)
        warn_without_middlewares(self.crawler)
        self.bridge.heard, self.bridge.changed, self.bridge.failed = self._hear, self._look_again, self._give_up
        self.bridge.dismissed = self._stop
        return self.bridge.open()

    def _opened(self, _: None) -> Any:
        on_closing(self.crawler, self.bridge.give_back)
        self._forget_elsewhere()
        if self.bridge.resumed:
            log.info("Resuming crawl (%d requests scheduled)", self.bridge.resumed, extra={"spider": self.spider})
        return self.df.open() if hasattr(self.df, "open") else None

    def _not_opened(self, failure: Failure) -> Failure:
        self._say_why_not(failure.value)
        return failure

    def _say_why_not(self, error: BaseException | None) -> None:
        """Scrapy shows what goes wrong here late, and deep in a traceback."""
        log.error("the spider cannot open: %s", error, extra={"spider": self.spider})

    def close(self, reason: str) -> Deferred[None] | None:
        """Leave the crawl; the last to leave clears it, unless SCHEDULER_PERSIST."""
        self._closed = True
        if not hasattr(self, "bridge"):
            return None  # it never opened
        if self._here:
            log.warning("%d requests that could not be stored were not begun", len(self._here))
        if hasattr(self.df, "close") and not isinstance(self.df, RFPDupeFilter):  # which scrapy-redis does not close
            self.df.close(reason)
        self.bridge.emptied = False
        return self.bridge.close().addCallback(lambda _: self._forget_elsewhere())

    def _forget_elsewhere(self) -> None:
        """A filter that remembers in a place of its own is to forget with the crawl, as with scrapy-redis."""
        if self._identify is None and self.bridge.emptied and hasattr(self.df, "clear"):
            self.df.clear()

    @property
    def tracks(self) -> Tracks:
        """The requests that Scrapy has in hand."""
        return self._tracks

    # ── requests ──

    def enqueue_request(self, request: ScrapyRequest) -> bool:
        """Take a request, to be stored soon. False for what was seen, as far as is known here."""
        if self._closed:
            log.error("%s came after the spider had closed: it is not stored", request, extra={"spider": self.spider})
            return False
        identity = b""
        if not request.dont_filter:
            known = self._identity(request)
            if known is None:
                self.df.log(request, self.spider)
                return False
            identity = known
        replaced = self._tracks.replaced_by(request)
        if replaced is not None:
            request.meta.pop(PAGE, None)  # the browser's page is that of the attempt which failed
        elif identity:
            self._known.add(identity)
        try:
            stored = self._convert(request, identity, replaced)
        except RequestError as error:
            return self._keep_here(request, error, replaced)
        if replaced is not None:
            replaced.replacement = stored
        else:
            self.bridge.push(stored, start=not self._tracks.found_on_a_page(request))
        self.stats.inc_value("scheduler/enqueued/redis")
        return True

    def push(self, request: ScrapyRequest) -> None:
        """Store a request, soon, whether it was seen or not."""
        stored = to_core(request, self.spider)
        stored = msgspec.structs.replace(stored, dont_filter=True, meta={**stored.meta, "d": request.dont_filter})
        self.bridge.push(stored, start=True)

    def _identity(self, request: ScrapyRequest) -> bytes | None:
        """What tells the request from others; None if it was seen, as far as is known here."""
        if self._identify is None:
            return None if self.df.request_seen(request) else b""
        known, url = self._known, request.url
        plain = self._by_url and request.method == "GET" and not request.body and "verbatim_url" not in request.meta
        if plain and url in known:
            return None
        identity = self._identify(request)
        if identity in known:
            if plain:
                known.add(url)  # told the next time without a fingerprint
            return None
        return identity

    def _convert(self, request: ScrapyRequest, identity: bytes, replaced: Track | None = None) -> Request:
        stored = to_core(request, self.spider, identity)
        if self._identify is None and not stored.dont_filter:  # a filter of the project's own has decided
            stored = msgspec.structs.replace(stored, dont_filter=True, meta={**stored.meta, "d": False})
        if not self._by_priority and stored.priority:
            stored = msgspec.structs.replace(stored, priority=0, meta={**stored.meta, "p": request.priority})
        if replaced is not None:  # as a redirect it is no deeper than what it replaces
            stored = msgspec.structs.replace(stored, redirects=(replaced.lease.request.url,))
        check_storable(stored)
        return stored

    def _keep_here(self, request: ScrapyRequest, error: RequestError, replaced: Track | None) -> bool:
        """What cannot be stored is crawled by this process or by none: better than not at all, but not quietly.

        What replaces another takes over its lease: if this process dies, that one is tried again.
        """
        text = str(error) if isinstance(error, UnstorableValue) else f"{request} cannot be stored: {error}"
        then = "it is lost" if replaced is None else "what it replaces is tried again"
        log.error("%s. It is kept in memory: if this process dies, %s", text, then, extra={"spider": self.spider})
        self.stats.inc_value("scheduler/unserializable")
        if replaced is not None:
            replaced.passed_on = True
        self._here.append((request, replaced.lease if replaced is not None else None))
        return True

    def next_request(self) -> ScrapyRequest | None:
        """A request to start with at once, if one was claimed."""
        while (lease := self.bridge.take()) is not None:
            request = self._read(lease)
            if request is not None:
                self._tracks.begin(request, lease)
                self.stats.inc_value("scheduler/dequeued/redis")
                return request
        return self._next_here() if self._here else None

    def _next_here(self) -> ScrapyRequest:
        request, lease = self._here.popleft()
        if lease is not None:
            self._tracks.begin(request, lease, claimed=False)
        return request

    def prepare(self, request: ScrapyRequest) -> Request:
        """What the frontier is to store of a request that somebody else hands to it."""
        filtered = self._identify is not None and not request.dont_filter
        return self._convert(request, self._identify(request) if self._identify and filtered else b"")

    def _read(self, lease: Lease) -> ScrapyRequest | None:
        """The leased request as Scrapy has it; one that makes no sense to this spider becomes a dead letter."""
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
        self.bridge.landed()
        self.bridge.settle(lease, Bury(reason[:500]))
        return None

    def _read_message(self, lease: Lease) -> None:
        """A start message that could not be read. It is read again, for it may have been revived; if in vain, buried."""
        verdict: Verdict = Complete()
        try:
            for request in [self.prepare(one) for one in messages.read_again(self.spider, lease.request.body)]:
                self.bridge.push(request)
        except Exception as error:  # noqa: BLE001 - the spider's own code reads it
            verdict = Bury(f"not a start message: {messages.reason_of(error)}"[:500])
        self.bridge.landed()
        self.bridge.settle(lease, verdict)

    def has_pending_requests(self) -> bool:
        """Whether something is left to do, for this worker or for any other."""
        return bool(self._here) or not self.bridge.finished

    def __len__(self) -> int:
        """How many requests wait, for all workers together. Asks the server, and waits for its answer."""
        return len(self.queue)

    def __bool__(self) -> bool:
        return True  # without asking anybody

    # ── what the bridge tells, on the reactor ──

    def _look_again(self) -> None:
        wake(self.crawler)

    def _hear(self, news: News) -> None:
        if news.seen:
            self._count_seen(news.seen)
        if news.refused or news.full:
            self._known.clear()
        for refusal in news.refused:
            log.error("%s was refused: %s", _name(refusal.request), refusal.reason, extra={"spider": self.spider})
            self.stats.inc_value("scheduler/refused")
        if news.full:
            self.stats.inc_value("scheduler/full", len(news.full))
            log.warning(
                "the crawl is full: %d requests found no room; they, or their pages, come again. With SILKLINE_OVERFLOW they"
                " would wait on disk",
                len(news.full),
            )
        if news.spilled:
            self.stats.inc_value("scheduler/spilled", news.spilled)
        if news.lost:
            self.stats.inc_value("scheduler/lost", len(news.lost))

    def _count_seen(self, seen: list[Request]) -> None:
        self.stats.inc_value("dupefilter/filtered", len(seen))
        if getattr(self.df, "debug", False):
            for request in seen:
                log.debug("Filtered duplicate request: %s", _name(request), extra={"spider": self.spider})

    def _give_up(self, error: SilklineError) -> None:
        """The crawl is gone, or speaks a language we do not know."""
        log.error("the spider closes: %s", error, extra={"spider": self.spider})
        close_spider(self.crawler, self.spider, "silkline_error")

    def _stop(self) -> None:
        close_spider(self.crawler, self.spider, "stopped by an operator")


def _name(request: object) -> str:
    return f"<{request.method} {request.url}>" if isinstance(request, Request) else str(request)
