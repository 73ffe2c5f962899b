"""Reads start messages from Redis while the spider is open.

`Feed` runs on the bridge's loop. It takes messages, lets the spider turn them into requests on the reactor, stores these in the
frontier, and only then removes the messages. A message whose request cannot be stored is removed when its page was processed. If
the process dies before that, another worker takes the messages again.
`SpiderPoller` is for spiders that read their messages themselves.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import scrapy
from scrapy import signals
from scrapy.crawler import Crawler

from silkline.core.request import Request
from silkline.core.verdict import Bury, RetryIn
from silkline.errors import ConfigError, RequestError, SilklineError, StoreUnavailable, UnknownCrawl
from silkline.frontier.frontier import Frontier
from silkline.frontier.store.keys import InboxKeys
from silkline.frontier.user_keys.inbox import DEFAULT_HOLD, Inbox, KeyKind, Message
from silkline.frontier.verbs.enqueue import Admission
from silkline.scrapy.bridge.bridge import Bridge
from silkline.scrapy.bridge.engine_hooks import is_closing
from silkline.scrapy.bridge.outbox import LaterCall
from silkline.scrapy.bridge.tracker import HeldMessage
from silkline.scrapy.convert.messages import as_requests, check_size, reason_of, unreadable_message

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_EVERY = 0.25
"""Seconds between two reads."""
NO_CREDIT_PAUSE = 0.01
AWAY_PAUSE = 1.0
IDLE_LOOK_EVERY = 1.0
"""Seconds between two checks whether any worker has something to do."""
CLOSE_TIMEOUT = 5.0
"""Seconds for which a closing spider waits for messages that are being stored."""
ERROR_PAUSE = 5.0
"""Seconds until the next read after one that failed."""
CLOSING_PAUSE = 2.0
"""Seconds for which no message is taken after `Feed.may_close` has returned True."""

EXTENSIONS_PER_HOLD = 4


class ReadMessage(NamedTuple):
    """A message that the spider has turned into requests."""

    message: Message
    requests: list[Request]
    unstorable: list[tuple[scrapy.Request, RequestError]]
    """Requests that this process must crawl itself."""


class StartScheduler(Protocol):
    """What `Feed` needs of the scheduler."""

    def prepare(self, request: scrapy.Request) -> Request: ...
    def keep_of_message(self, request: scrapy.Request, error: RequestError, message: HeldMessage) -> None: ...


class FedSpider(Protocol):
    """What `Feed` and `SpiderPoller` need of a spider; `RedisMixin` has it."""

    name: str
    crawler: Crawler
    redis_batch_size: int | None
    max_idle_time: int | None

    def decoded(self, data: bytes) -> Any: ...
    def make_request_from_data(self, data: Any) -> Any: ...
    def schedule_next_requests(self) -> None: ...


class Credit:
    """How many messages may be taken: as many as requests were claimed by this process meanwhile, and one batch ahead.

    So messages stay in the user's key, in their order, until a worker can start with them. The credit also grows with
    time, because other workers may claim the requests, and hosts may have a delay.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = float(most)
        self._claimed = 0
        self._looked = time.monotonic()

    def left(self, claimed: int) -> int:
        now = time.monotonic()
        grown = claimed - self._claimed + (now - self._looked) / LOOK_EVERY
        self._left = min(float(self._most), self._left + grown)
        self._claimed, self._looked = claimed, now
        return int(self._left)

    def spend(self, messages: int) -> None:
        self._left -= messages


class Feed:
    """Reads the keys of one spider."""

    def __init__(
        self,
        spider: FedSpider,
        bridge: Bridge,
        scheduler: StartScheduler,
        keys: Sequence[str],
        kind: KeyKind,
    ) -> None:
        self._spider: Any = spider
        self._bridge = bridge
        self._scheduler = scheduler
        self._keys = keys
        self._kind = kind
        self._most = max(spider.redis_batch_size or 1, bridge.options.concurrency)
        self._credit = Credit(self._most)
        self._in_memory: set[Message] = set()
        """Messages whose requests this process crawls from memory."""
        self._lock = threading.Lock()
        self._busy = False
        self._closing_until = 0.0
        self._last_activity = time.monotonic()
        self._accepted = -1
        self._rested = self._next_look = 0.0
        self._logged: str | None = None

    # ── on the reactor ──

    def may_close(self, idle: float) -> bool:
        """Return whether no worker has had anything to do for *idle* seconds. If so, no message is taken for a moment."""
        with self._lock:
            if self._busy or self._in_memory or self.idle_for < idle:
                return False
            self._closing_until = time.monotonic() + CLOSING_PAUSE
            return True

    @property
    def idle_for(self) -> float:
        """Seconds for which there was no message and no worker had anything to do."""
        return min(self._bridge.idle.idle_for, time.monotonic() - self._last_activity)

    # ── on the bridge's loop ──

    async def run(self, frontier: Frontier) -> None:
        """Read messages until cancelled."""
        inbox = frontier.inbox(self._keys, kind=self._kind)
        extending = asyncio.ensure_future(self._extend(inbox))
        try:
            await self._read(frontier, inbox)
        finally:
            extending.cancel()

    async def _extend(self, inbox: Inbox) -> None:
        """Keep the messages whose requests are crawled from memory, unless the reactor has been blocked for too long."""
        while True:
            await asyncio.sleep(DEFAULT_HOLD / EXTENSIONS_PER_HOLD)
            if self._in_memory and not self._bridge.given_up:
                with suppress(StoreUnavailable):  # logged when messages are read
                    await inbox.extend(self._in_memory.copy())

    async def _read(self, frontier: Frontier, inbox: Inbox) -> None:
        while True:
            try:
                pause = await self._look(frontier, inbox)
                self._logged = None
            except UnknownCrawl:
                raise  # the bridge creates the crawl again, or closes the spider
            except (StoreUnavailable, ConfigError) as error:
                self._log_error(error)
                pause = AWAY_PAUSE
            await asyncio.sleep(pause)

    async def _look(self, frontier: Frontier, inbox: Inbox) -> float:
        """Store some messages in the frontier, and return the seconds until the next read."""
        batch, now = self._spider.redis_batch_size, time.monotonic()
        wanted = min(batch, self._credit.left(self._bridge.prefetch.claimed), self._most - len(self._in_memory))
        if wanted < 1 or (wanted < batch // 2 and now < self._next_look):  # few are not worth a call
            return NO_CREDIT_PAUSE
        self._next_look = now + LOOK_EVERY
        messages = [] if self._closing or self._bridge.prefetch.paused else await inbox.take(wanted)
        if not messages:
            await self._check_idle(frontier, inbox)
            return LOOK_EVERY
        with self._lock:
            if self._closing:
                return LOOK_EVERY  # the messages stay taken for a while, and are taken again later
            self._busy, self._last_activity = True, time.monotonic()
        try:
            await self._finish_even_if_cancelled(self._store_messages(frontier, inbox, messages))
        finally:
            self._busy, self._last_activity = False, time.monotonic()
        self._credit.spend(len(messages))
        return 0.0 if len(messages) == wanted else LOOK_EVERY

    @property
    def _closing(self) -> bool:
        """Whether the spider closes: messages would be stored in a crawl that has no worker, or that is removed."""
        return time.monotonic() < self._closing_until or is_closing(self._spider.crawler)

    async def _finish_even_if_cancelled(self, work: Coroutine[Any, Any, None]) -> None:
        """Finish *work* even if the spider closes meanwhile: messages that are stored and not removed would come twice."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            with suppress(SilklineError, TimeoutError):
                await asyncio.wait_for(task, CLOSE_TIMEOUT)
            raise

    async def _store_messages(self, frontier: Frontier, inbox: Inbox, messages: list[Message]) -> None:
        made = await self._on_reactor(lambda: [self._make(message) for message in messages])
        requests = [request for one in made for request in one.requests]
        without_room, refused = await self._store(frontier, requests)
        ended = [(one, ids) for one in made if not without_room & (ids := {id(request) for request in one.requests})]
        unwanted = [(one.message, ids & refused.keys()) for one, ids in ended if ids & refused.keys()]
        for message, ids in unwanted:
            self._log_refused(message, refused[ids.pop()])
        await inbox.refuse(message for message, _ in unwanted)
        kept = [one for one, ids in ended if one.unstorable and not ids & refused.keys()]
        for one in kept:
            self._in_memory.add(one.message)
            self._bridge.call_reactor(partial(self._crawl_from_memory, inbox, one))
        await inbox.done(one.message for one, _ in ended if one.message not in self._in_memory)
        self._bridge.call_reactor(lambda: self._count(len(made), len(requests) - len(without_room) - len(refused)))

    def _crawl_from_memory(self, inbox: Inbox, read: ReadMessage) -> None:
        """Let this process crawl requests that cannot be stored. Runs on the reactor."""

        def ended(error: Bury | RetryIn | None) -> None:
            self._bridge.outbox.call_frontier(LaterCall(lambda _: self._end_in_memory(inbox, read.message, error)))

        held = HeldMessage(len(read.unstorable), ended)
        for request, error in read.unstorable:
            self._scheduler.keep_of_message(request, error, held)

    async def _end_in_memory(self, inbox: Inbox, message: Message, error: Bury | RetryIn | None) -> None:
        """All requests of a message have ended, and what they found is stored."""
        if isinstance(error, Bury):
            self._log_refused(message, error.reason)
            await inbox.refuse([message])
        elif error is None:
            await inbox.done([message])
        self._in_memory.discard(message)  # without a verdict, it is taken again after the hold time

    def _log_refused(self, message: Message, reason: str) -> None:
        log.error(
            "A message in %s was refused: %s. It is kept in %s", message.key, reason, InboxKeys(message.key).refused
        )

    async def _store(self, frontier: Frontier, requests: list[Request]) -> tuple[set[int], dict[int, str]]:
        """Enqueue requests until the crawl has room for all, or too much time has passed.

        Returns the ids of the requests without room, whose messages are taken again later, and the reasons of refused ones.
        """
        refused: dict[int, str] = {}
        deadline = time.monotonic() + DEFAULT_HOLD / 2
        while True:
            admissions = await frontier.enqueue(requests)
            refused |= {id(requests[one.position]): one.reason for one in admissions.refusals}
            requests = [one for one, admission in zip(requests, admissions, strict=True) if admission is Admission.FULL]
            if not requests or time.monotonic() > deadline:
                return {id(one) for one in requests}, refused
            await asyncio.sleep(LOOK_EVERY)

    def _make(self, message: Message) -> ReadMessage:
        """Let the spider turn a message into requests. Runs on the reactor."""
        read = ReadMessage(message, [], [])
        try:
            check_size(message)
            requests = as_requests(self._spider.make_request_from_data(self._spider.decoded(message.data)))
            for request in requests:
                self._prepare(request, read)
        except Exception as error:  # noqa: BLE001 - one bad message must not block the others
            log.error("A message in %s is buried: %s", message.key, reason_of(error))  # noqa: TRY400 - no traceback needed
            return ReadMessage(message, [unreadable_message(message.key, message.data)], [])
        for request in requests:
            self._spider.crawler.signals.send_catch_log(signals.request_scheduled, request=request, spider=self._spider)
        return read

    def _prepare(self, request: scrapy.Request, read: ReadMessage) -> None:
        try:
            read.requests.append(self._scheduler.prepare(request))
        except RequestError as error:
            read.unstorable.append((request, error))

    def _count(self, messages: int, requests: int) -> None:
        stats = self._spider.crawler.stats
        stats.inc_value("silkline/messages", messages)
        stats.inc_value("scheduler/enqueued/redis", requests)

    async def _check_idle(self, frontier: Frontier, inbox: Inbox) -> None:
        """There are no messages. If the spider closes when idle, check whether any worker has something to do."""
        idle, now = self._spider.max_idle_time, time.monotonic()
        if not idle or now - self._rested < IDLE_LOOK_EVERY:
            return
        self._rested = now
        accepted = (await frontier.admin.stats()).accepted
        if accepted != self._accepted or await inbox.waiting():
            self._accepted, self._last_activity = accepted, time.monotonic()
        elif self.idle_for >= idle:
            self._bridge.wake()  # Scrapy sends `spider_idle`

    def _log_error(self, error: Exception) -> None:
        self._last_activity = time.monotonic()
        if str(error) != self._logged:
            self._logged = str(error)
            log.warning("Start messages cannot be read: %s", error)

    def _on_reactor(self, function: Callable[[], T]) -> Awaitable[T]:
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised by the future
                result.set_exception(error)

        self._bridge.call_reactor(run)
        return asyncio.wrap_future(result)


class SpiderPoller:
    """Calls `schedule_next_requests` of the spider whenever it has room, not only when it is idle."""

    def __init__(self, spider: FedSpider, bridge: Bridge) -> None:
        self._spider: Any = spider
        self._bridge = bridge
        self._pause = LOOK_EVERY
        self._asked = False

    @property
    def idle_for(self) -> float:
        """Seconds for which no worker had anything to do."""
        return self._bridge.idle.idle_for

    async def run(self, _frontier: Frontier) -> None:
        """Call the spider regularly, until cancelled. Runs on the bridge's loop."""
        while True:
            if self._bridge.prefetch.room > 0 and not self._asked:
                self._asked = True
                self._bridge.call_reactor(self._ask)
            await asyncio.sleep(self._pause)

    def _ask(self) -> None:
        """Call the spider. Runs on the reactor."""
        self._asked = False
        if is_closing(self._spider.crawler):
            return  # no worker would start what the spider pops now
        try:
            self._spider.schedule_next_requests()
            self._pause = LOOK_EVERY
        except Exception:
            self._pause = ERROR_PAUSE
            log.exception("%s could not read its start messages", self._spider.name)
