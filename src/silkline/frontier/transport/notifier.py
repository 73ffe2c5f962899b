"""Wakes clients that wait for work: servers publish when a shard has some, and clients poll rarely.

A claim that waits subscribes to the channels of all shards. `PollSchedule` says when to poll which shard.
"""

from __future__ import annotations

import logging
import math
import os
import time
from contextlib import suppress
from typing import Any

from silkline.errors import StoreUnavailable
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.connection import (
    READS_RESUME,
    AsyncConnection,
    cancellations,
    raise_if_cancelled,
    sleep,
)
from silkline.frontier.transport.nodes import AsyncLimiter
from silkline.frontier.transport.redis_errors import translate

SAFETY_POLL = 5.0
"""Seconds after which a shard is polled without a notification, in case one got lost."""

SPACING = (0.0, 0.01, 0.025, 0.06)
"""Seconds between consecutive polls that find nothing: short at first, then fewer than 20 polls a second."""


READ_SECONDS = 3.0
"""Seconds to wait for a message before the node is checked."""
CONFIRM_SECONDS = 10.0
"""Seconds to wait for the confirmation of all subscriptions."""
log = logging.getLogger("silkline.notifier")


class PollSchedule:
    """When to poll which shard. Times are seconds of any monotonic clock."""

    def __init__(self, shards: int) -> None:
        self._next = [0.0] * shards
        self._notified = [(-math.inf, math.inf)] * shards  # the time of the last notification, and when it said to poll
        self._failing: set[int] = set()
        self._turn = 0
        self._empty_polls = 0
        self._safety = max(SAFETY_POLL, shards / 10)

    def due(self, now: float) -> list[int]:
        """Return the shards to poll now. Each call starts at another shard, so that none is preferred."""
        count = len(self._next)
        self._turn = (self._turn + 1) % count
        order = (*range(self._turn, count), *range(self._turn))
        return [shard for shard in order if self._next[shard] <= now]

    def replied(self, shard: int, poll_in: float | None, *, asked: float, now: float) -> None:
        """Record in how many seconds to poll a shard again, as it replied to a poll at *asked*; None if unknown."""
        self._failing.discard(shard)
        notified, due = self._notified[shard]
        if notified < asked:
            self._notified[shard] = (notified, math.inf)
            due = math.inf
        self._next[shard] = min(due, now + min(self._safety, math.inf if poll_in is None else poll_in))

    def failed(self, shard: int, again_in: float, *, asked: float, now: float) -> None:
        """Record that a shard polled at *asked* could not be reached; the other shards are polled first."""
        self.replied(shard, again_in, asked=asked, now=now)
        self._failing.add(shard)

    @property
    def all_failed(self) -> bool:
        """Whether the last poll of every shard failed."""
        return len(self._failing) == len(self._next)

    def notified(self, shard: int, poll_in: float, now: float) -> None:
        """Record a notification. It may arrive before the reply to an earlier poll, which must not overwrite it."""
        self._notified[shard] = (now, min(self._notified[shard][1], now + poll_in))
        self._next[shard] = min(self._next[shard], now + poll_in)

    def poll_all(self) -> None:
        """Make every shard due."""
        self._next = [0.0] * len(self._next)

    def found_work(self) -> None:
        """Record that a poll found work: the next polls are quick again."""
        self._empty_polls = 0

    def pause(self, now: float) -> float:
        """Return the seconds to wait for a notification after a poll that found nothing."""
        self._empty_polls = min(self._empty_polls + 1, len(SPACING) - 1)
        return max(SPACING[self._empty_polls], self.next_poll - now)

    @property
    def next_poll(self) -> float:
        """When the next shard is due."""
        return min(self._next)

    @property
    def spacing(self) -> float:
        """The shortest time to the next poll, even after a notification."""
        return SPACING[self._empty_polls]


def record_message(schedule: PollSchedule, message: dict[str, Any] | None) -> bool:
    """Enter a message into the schedule; returns whether there was one."""
    if message and message["type"] == "subscribe":
        schedule.poll_all()  # notifications arrive from now on; earlier ones may be lost
        return True
    if not message or message["type"] != "message":
        return False
    channel = message["channel"].decode()
    shard = int(channel.rpartition("}")[0].rpartition(":")[2])
    schedule.notified(shard, int(message["data"]) / 1000, time.monotonic())
    return True


def channels(layout: CrawlLayout) -> list[str]:
    """Return the channels on which the shards of a crawl publish."""
    return [keys.channel for keys in layout.shards]


def node_down(node: str) -> StoreUnavailable:
    """Return the error for a node that does not reply, and may not pass on messages: the client subscribes at another node."""
    return StoreUnavailable(f"node {node} does not reply")


class Confirmation:
    """Counts the confirmed subscriptions."""

    def __init__(self, channels: int) -> None:
        self._awaited = channels
        self._deadline = time.monotonic() + CONFIRM_SECONDS

    def complete(self, message: dict[str, Any] | None) -> bool:
        """Return whether all subscriptions are confirmed; raises if that takes too long."""
        self._awaited -= message is not None and message["type"] == "subscribe"
        if self._awaited > 0 and time.monotonic() > self._deadline:
            raise StoreUnavailable("the server does not confirm the subscription to notifications")
        return self._awaited <= 0


class AsyncNotifier:
    """Listens while claims of a `Frontier` wait. One of several waiting claims reads the messages, for all of them.

    It leaves its turn after each message, so that another claim reads when it ends, whether it found work, reached its deadline or
    was interrupted.
    """

    def __init__(self, connection: AsyncConnection, layout: CrawlLayout, schedule: PollSchedule) -> None:
        self._connection = connection
        self._layout = layout
        self._schedule = schedule
        self._inherited: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._stopped = False
        self._turn = AsyncLimiter(1)
        self._listening: Any = None
        self._pubsub: Any = None
        self._node: Any = None

    def _part_from_parent(self) -> None:
        """In a forked child, start without the connection of the parent."""
        if self._pid != os.getpid():
            self._inherited.append((self._turn, self._listening, self._pubsub))
            self._begin()

    async def listen(self) -> None:
        """Subscribe, unless that is done, and read the messages that have arrived. Returns at once if another claim reads.

        That claim, too, makes every shard due when it has subscribed. So nothing that is published from now on is missed.
        """
        self._part_from_parent()
        if self._stopped or not self._turn.enter_now():
            return
        async with self._turn:
            if self._pubsub is None:
                await self._start()
            while self._pubsub is not None and await self._read_message(0):
                pass

    async def _start(self) -> None:
        self._listening = self._connection.listen(channels(self._layout))
        try:
            self._pubsub, self._node = await self._listening.__aenter__()
            confirmation = Confirmation(len(self._layout.shards))
            while not confirmation.complete(await self._get(READ_SECONDS)):
                pass
        except BaseException:
            await self._drop()
            raise
        self._schedule.poll_all()

    async def wait(self, polled: float, deadline: float) -> None:
        """Wait until a shard is due, or until the deadline. *polled* is the time of the last poll."""
        now = time.monotonic()
        until = min(deadline, now + self._schedule.pause(now))
        while now < until and (self._pubsub is not None or self._turn.taken_by_others):
            if self._turn.enter_now():
                async with self._turn:
                    await self._read_message(until - now)
            else:
                await self._turn.wait(until - now)
            now = time.monotonic()
            until = min(until, max(polled + self._schedule.spacing, self._schedule.next_poll))
        if self._stopped and now < until:
            await sleep(until - now)

    async def _read_message(self, seconds: float) -> bool:
        try:
            return record_message(self._schedule, await self._get(seconds))
        except StoreUnavailable as error:
            log.debug("notifications do not arrive, polling instead: %s", error)
            self._schedule.poll_all()
            return False

    async def _get(self, seconds: float) -> Any:
        """Return the next message; None if there is none. After an interruption, every shard is due: a message may be lost."""
        pubsub, cancelled = self._pubsub, cancellations()
        try:
            message = await pubsub.get_message(timeout=seconds) if pubsub else None
            raise_if_cancelled(cancelled)
        except Exception as error:  # noqa: BLE001 - translated
            await self._drop()
            raise_if_cancelled(cancelled)  # the error may be that of a connection that was closed meanwhile
            raise translate(error, self._connection.target.public) from None
        except BaseException:
            self._schedule.poll_all()
            if not READS_RESUME:
                await self._drop()
            raise
        if message is None and pubsub and self._node.down:
            await self._drop()
            raise node_down(self._node.name)
        return message

    async def stop(self) -> None:
        self._part_from_parent()
        self._stopped = True
        await self._drop()

    async def _drop(self) -> None:
        """Close the subscription. The next claim that waits subscribes again."""
        listening, self._listening, self._pubsub = self._listening, None, None
        if listening is not None:
            with suppress(Exception):
                await listening.__aexit__(None, None, None)
