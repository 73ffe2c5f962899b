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
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import load_object
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from silkline.core.errors import RequestError, SilklineError
from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, Verdict
from silkline.scrapy import messages
from silkline.scrapy.bridge import Bridge
from silkline.scrapy.dupefilter import Identify, find_filter, is_by_url
from silkline.scrapy.options import Options
from silkline.scrapy.outbox import News
from silkline.scrapy.queue import Queue
from silkline.scrapy.requests import LostMeaning, to_core, to_scrapy
from silkline.scrapy.tracks import Tracks
from silkline.scrapy.values import UnstorableValue
from silkline.worker.recent import Recent

log = logging.getLogger(__name__)

KNOWN = 100_000


class Scheduler(BaseScheduler):
    """Scrapy's scheduler on a frontier.

    A request that is handed out stays leased until its response has been through the callback and the item pipelines. If
    the process dies before that, it is handed out again, to whoever asks.
    """

    spider: Spider
    bridge: Bridge
    df: Any
    queue: Queue

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.stats: Any = crawler.stats
        self._known: Recent[bytes | str] = Recent(KNOWN)
        """What was offered lately: identities, and where nothing but the URL makes the identity, URLs as they were written,
        so that most duplicates are told without a fingerprint. The frontier has the last word."""
        self._here: deque[ScrapyRequest] = deque()
        """Requests that cannot be stored."""
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
        self.queue = load_object(self.crawler.settings.get("SCHEDULER_QUEUE_CLASS") or Queue)(self.__len__)
        self._tracks = Tracks(self.bridge.landed, self.bridge.settle, self.bridge.ledger)
        self._tracks.listen(self.crawler)
        self.bridge.ledger.listen(self.crawler)
        self.bridge.heard, self.bridge.changed, self.bridge.failed = self._hear, self._look_again, self._give_up
        self.bridge.dismissed = self._stop
        return self.bridge.open()

    def _opened(self, _: None) -> None:
        if self.bridge.resumed:
            log.info("Resuming crawl (%d requests scheduled)", self.bridge.resumed, extra={"spider": self.spider})

    def _not_opened(self, failure: Failure) -> Failure:
        self._say_why_not(failure.value)
        return failure

    def _say_why_not(self, error: BaseException | None) -> None:
        """Scrapy shows what goes wrong here late, and deep in a traceback."""
        log.error("the spider cannot open: %s", error, extra={"spider": self.spider})

    def close(self, reason: str) -> Deferred[None] | None:
        """Leave the crawl; the last to leave clears it, unless SCHEDULER_PERSIST."""
        if not hasattr(self, "bridge"):
            return None  # it never opened
        if hasattr(self.df, "close"):
            self.df.close(reason)
        return self.bridge.close()

    @property
    def tracks(self) -> Tracks:
        """The requests that Scrapy has in hand."""
        return self._tracks

    # ── requests ──

    def enqueue_request(self, request: ScrapyRequest) -> bool:
        """Take a request, to be stored soon. False for what was seen, as far as is known here."""
        identity = b""
        if not request.dont_filter:
            known = self._identity(request)
            if known is None:
                self.df.log(request, self.spider)
                return False
            identity = known
        replaced = self._tracks.replaced_by(request)
        if identity and replaced is None:
            self._known.add(identity)
        try:
            stored = self._convert(request, identity)
        except RequestError as error:
            return self._keep_here(request, error)
        if replaced is not None:
            replaced.replacement = stored
        else:
            self.bridge.push(stored, start="is_start_request" in request.meta)
        self.stats.inc_value("scheduler/enqueued/redis")
        return True

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

    def _convert(self, request: ScrapyRequest, identity: bytes) -> Request:
        stored = to_core(request, self.spider, identity)
        if self._identify is None and not stored.dont_filter:  # a filter of the project's own has decided
            stored = msgspec.structs.replace(stored, dont_filter=True, meta={**stored.meta, "d": False})
        if not self._by_priority and stored.priority:
            stored = msgspec.structs.replace(stored, priority=0, meta={**stored.meta, "p": request.priority})
        return stored

    def _keep_here(self, request: ScrapyRequest, error: RequestError) -> bool:
        """What cannot be stored is crawled by this process or by none: better than not at all, but not quietly."""
        text = str(error) if isinstance(error, UnstorableValue) else f"{request} cannot be stored: {error}"
        log.error("%s. It is kept in memory: if this process dies, it is lost", text, extra={"spider": self.spider})
        self.stats.inc_value("scheduler/unserializable")
        self._here.append(request)
        return True

    def next_request(self) -> ScrapyRequest | None:
        """A request to start with at once, if one was claimed."""
        while (lease := self.bridge.take()) is not None:
            request = self._read(lease)
            if request is not None:
                self._tracks.begin(request, lease)
                self.stats.inc_value("scheduler/dequeued/redis")
                return request
        return self._here.popleft() if self._here else None

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
        except LostMeaning as error:
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
        """How many requests are in this process: unsent, or claimed and not handed out."""
        return len(self.bridge) + len(self._here)

    # ── what the bridge tells, on the reactor ──

    def _look_again(self) -> None:
        engine: Any = self.crawler.engine
        slot = engine._slot if engine is not None else None  # noqa: SLF001 - there is no other way to wake the engine
        if slot is not None and slot.closing is None:
            slot.nextcall.schedule()

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
            log.warning("the crawl is full: %d links found no room; their pages come again", len(news.full))
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


def close_spider(crawler: Crawler, spider: Spider, reason: str) -> None:
    """Close it as Scrapy of any version does."""
    engine: Any = crawler.engine
    if hasattr(engine, "close_spider_async"):
        deferred_from_coro(engine.close_spider_async(reason=reason))
    else:
        engine.close_spider(spider, reason=reason)


def _name(request: object) -> str:
    return f"<{request.method} {request.url}>" if isinstance(request, Request) else str(request)
