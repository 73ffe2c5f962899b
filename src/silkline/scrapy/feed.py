"""Feed: brings what people push into Redis to the frontier, for as long as the spider is open.

It runs in the bridge's loop. Messages are taken, made requests on the reactor (that is the spider's code), stored in the
frontier, and only then are they done. Whoever is killed in between leaves them to be taken again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import signals

from silkline.core.errors import ConfigError, SilklineError, StoreUnavailable
from silkline.core.lease import Admission
from silkline.core.request import Request
from silkline.frontier.frontier import Frontier
from silkline.frontier.inbox import DEFAULT_HOLD, Inbox, Kind, Message
from silkline.frontier.keys import InboxKeys
from silkline.scrapy.bridge import Bridge
from silkline.scrapy.engine import is_closing
from silkline.scrapy.messages import as_requests, reason_of, unreadable

if TYPE_CHECKING:
    from silkline.scrapy.spiders import RedisMixin

log = logging.getLogger(__name__)

LOOK_EVERY = 0.25
"""Seconds between two looks for messages."""
NO_CREDIT_PAUSE = 0.01
AWAY_PAUSE = 1.0
IDLE_LOOK_EVERY = 1.0
"""Seconds between two looks whether anybody has something to do."""
LAST_WORD = 5.0
"""Seconds for which the end of the spider waits for messages that are on their way."""
CLOSING = 2.0
"""Seconds for which nothing is taken after the spider was told that it may close."""

Made = list[tuple[Message, list[Request]]]


class Credit:
    """How many messages may be brought: as many as this process has claimed of the frontier since, and one batch ahead.

    So what people pushed stays where they pushed it, in their order, until somebody can begin with it. Others may claim
    what we brought, and a host may want to be visited slowly: so some more may be brought as time goes by.
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
    """Reads keys for one spider. *prepare* makes of a request of Scrapy what the frontier stores."""

    def __init__(
        self,
        spider: RedisMixin,
        bridge: Bridge,
        prepare: Callable[[scrapy.Request], Request],
        keys: Sequence[str],
        kind: Kind,
    ) -> None:
        self._spider: Any = spider
        self._bridge = bridge
        self._prepare = prepare
        self._keys = keys
        self._kind = kind
        self._credit = Credit(max(spider.redis_batch_size or 1, bridge.options.concurrency))
        self._lock = threading.Lock()
        self._busy = False
        self._closing_until = 0.0
        self._moved = time.monotonic()
        self._accepted = -1
        self._rested = self._next_look = 0.0
        self._complained: str | None = None

    # ── on the reactor ──

    def may_close(self, idle: float) -> bool:
        """Whether nobody has had anything to do for so many seconds. If so, nothing more is taken for a moment."""
        with self._lock:
            if self._busy or self.idle_for < idle:
                return False
            self._closing_until = time.monotonic() + CLOSING
            return True

    @property
    def idle_for(self) -> float:
        """Seconds for which there was no message and no worker had anything to do."""
        return min(self._bridge.idle_for, time.monotonic() - self._moved)

    # ── on the bridge's loop ──

    async def run(self, frontier: Frontier) -> None:
        """Read, for ever."""
        inbox = await frontier.inbox(self._keys, kind=self._kind)
        while True:
            try:
                pause = await self._look(frontier, inbox)
                self._complained = None
            except (StoreUnavailable, ConfigError) as error:
                self._complain(error)
                pause = AWAY_PAUSE
            await asyncio.sleep(pause)

    async def _look(self, frontier: Frontier, inbox: Inbox) -> float:
        """Bring some messages to the frontier; answers in how many seconds to look for more."""
        batch, now = self._spider.redis_batch_size, time.monotonic()
        wanted = min(batch, self._credit.left(self._bridge.claimed))
        if wanted < 1 or (wanted < batch // 2 and now < self._next_look):  # few are not worth a call
            return NO_CREDIT_PAUSE
        self._next_look = now + LOOK_EVERY
        messages = [] if self._closing or self._bridge.resting else await inbox.take(wanted)
        if not messages:
            await self._rest(frontier, inbox)
            return LOOK_EVERY
        with self._lock:
            if self._closing:
                return LOOK_EVERY  # they stay taken, and come again
            self._busy, self._moved = True, time.monotonic()
        try:
            await self._through(self._bring(frontier, inbox, messages))
        finally:
            self._busy, self._moved = False, time.monotonic()
        self._credit.spend(len(messages))
        return 0.0 if len(messages) == wanted else LOOK_EVERY

    @property
    def _closing(self) -> bool:
        """What is taken now would be taken into a crawl that nobody goes on with, or that is about to be removed."""
        return time.monotonic() < self._closing_until or is_closing(self._spider.crawler)

    async def _through(self, work: Coroutine[Any, Any, None]) -> None:
        """See it through even when the spider closes meanwhile: what is stored and not done would come twice."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            with suppress(SilklineError, TimeoutError):
                await asyncio.wait_for(task, LAST_WORD)
            raise

    async def _bring(self, frontier: Frontier, inbox: Inbox, messages: list[Message]) -> None:
        made = await self._on_reactor(lambda: self._make(messages))
        requests = [request for _, several in made for request in several]
        homeless, refused = await self._store(frontier, requests)
        ended = [(message, ids) for message, several in made if not homeless & (ids := {id(one) for one in several})]
        unwanted = [(message, ids & refused.keys()) for message, ids in ended if ids & refused.keys()]
        for message, ids in unwanted:
            self._put_aside(message, refused[ids.pop()])
        await inbox.refuse(message for message, _ in unwanted)
        await inbox.done(message for message, _ in ended)
        self._bridge.call_reactor(lambda: self._count(len(made), len(requests) - len(homeless) - len(refused)))

    def _put_aside(self, message: Message, reason: str) -> None:
        log.error(
            "A message in %s was refused: %s. It is kept in %s", message.key, reason, InboxKeys(message.key).refused
        )

    async def _store(self, frontier: Frontier, requests: list[Request]) -> tuple[set[int], dict[int, str]]:
        """Offer requests until there is room for all; those for which there is none in time come again as messages.

        Answers the latter, and why others were refused.
        """
        refused: dict[int, str] = {}
        deadline = time.monotonic() + DEFAULT_HOLD / 2
        while True:
            answers = await frontier.enqueue(requests)
            refused |= {id(requests[one.position]): one.reason for one in answers.refusals}
            requests = [one for one, answer in zip(requests, answers, strict=True) if answer is Admission.FULL]
            if not requests or time.monotonic() > deadline:
                return {id(one) for one in requests}, refused
            await asyncio.sleep(LOOK_EVERY)

    def _make(self, messages: list[Message]) -> Made:
        """On the reactor: the spider's own code makes requests of messages."""
        return [(message, self._make_one(message)) for message in messages]

    def _make_one(self, message: Message) -> list[Request]:
        try:
            requests = as_requests(self._spider.make_request_from_data(self._spider.decoded(message.data)))
            stored = [self._prepare(request) for request in requests]
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one message, the others are good
            log.error("A message in %s is buried: %s", message.key, reason_of(error))  # noqa: TRY400 - it says all
            return [unreadable(message.key, message.data)]
        for request in requests:
            self._spider.crawler.signals.send_catch_log(signals.request_scheduled, request=request, spider=self._spider)
        return stored

    def _count(self, messages: int, requests: int) -> None:
        stats = self._spider.crawler.stats
        stats.inc_value("silkline/messages", messages)
        stats.inc_value("scheduler/enqueued/redis", requests)

    async def _rest(self, frontier: Frontier, inbox: Inbox) -> None:
        """There is nothing to take. If the spider is to close after a while, see whether anybody has something to do."""
        idle, now = self._spider.max_idle_time, time.monotonic()
        if not idle or now - self._rested < IDLE_LOOK_EVERY:
            return
        self._rested = now
        accepted = (await frontier.stats()).accepted
        if accepted != self._accepted or await inbox.waiting():
            self._accepted, self._moved = accepted, time.monotonic()
        elif self.idle_for >= idle:
            self._bridge.call_reactor(self._bridge.changed)  # which asks the spider whether it is idle

    def _complain(self, error: Exception) -> None:
        self._moved = time.monotonic()
        if str(error) != self._complained:
            self._complained = str(error)
            log.warning("Start messages cannot be read: %s", error)

    def _on_reactor(self, act: Callable[[], Made]) -> Awaitable[Made]:
        answer: Future[Made] = Future()

        def run() -> None:
            try:
                answer.set_result(act())
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                answer.set_exception(error)

        self._bridge.call_reactor(run)
        return asyncio.wrap_future(answer)
