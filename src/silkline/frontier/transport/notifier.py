"""Wakes clients that wait for work: servers publish when a shard has some, and clients poll rarely.

`PollSchedule` and the reading of messages are shared with plain code. `AsyncNotifier` has a twin, `SyncNotifier`, that is written by
hand. The async one reads messages in its own task: a claim may be cancelled while it waits, and a read that is cancelled could
lose a message. Plain code has no tasks. There, one of the waiting threads reads for all of them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from contextlib import suppress
from typing import Any

from silkline.errors import StoreUnavailable
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.connection import AsyncConnection

SAFETY_POLL = 5.0
"""Seconds after which a shard is polled without a notification, in case one got lost."""

SPACING = (0.0, 0.01, 0.025, 0.06)
"""Seconds between consecutive polls that find nothing: short at first, then fewer than 20 polls a second."""


READ_SECONDS = 3.0
"""Seconds to wait for a message before the node is checked."""
CONFIRM_SECONDS = 10.0
"""Seconds to wait for the confirmation of all subscriptions."""
AGAIN_SECONDS = 0.5
"""Seconds between two attempts to subscribe."""
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
    """Listens in a task, for all waiting claims of a `Frontier`."""

    def __init__(self, connection: AsyncConnection, layout: CrawlLayout, schedule: PollSchedule) -> None:
        self._connection = connection
        self._layout = layout
        self._schedule = schedule
        self._inherited: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._notified = asyncio.Event()
        self._stopped = False
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None

    def _part_from_parent(self) -> None:
        """In a forked child, start without the task and the connection of the parent."""
        if self._pid != os.getpid():
            self._inherited.append((self._notified, self._task, self._started))
            self._begin()

    async def listen(self) -> None:
        """Subscribe, unless that is done. Messages that arrive after this returns are not missed."""
        self._part_from_parent()
        if self._task is None or self._task.done():
            if self._stopped:
                return
            self._started = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._listen(self._started), name="silkline-notifier")
        if self._started:
            await asyncio.shield(self._started)

    async def _listen(self, started: asyncio.Future[None]) -> None:
        """Listen until stopped. An error of the first subscription is raised by `listen`; later, it is repeated."""
        while True:
            try:
                await self._listen_once(started)
            except Exception as error:  # noqa: BLE001 - raised by `listen`
                self._schedule.poll_all()
                self._notified.set()
                if not started.done():
                    started.set_exception(error)
                    started.exception()  # marks it as retrieved: all callers may have left
                    return
                log.debug("notifications do not arrive, polling instead: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _listen_once(self, started: asyncio.Future[None]) -> None:
        async with self._connection.listen(channels(self._layout)) as (pubsub, node):
            confirmation = Confirmation(len(self._layout.shards))
            while True:
                message = await pubsub.get_message(timeout=READ_SECONDS)
                if message is None and node.down:
                    raise node_down(node.name)
                if record_message(self._schedule, message):
                    self._notified.set()
                if confirmation.complete(message) and not started.done():
                    started.set_result(None)

    async def wait(self, polled: float, deadline: float) -> None:
        """Wait until a shard is due, or until the deadline. *polled* is the time of the last poll."""
        now = time.monotonic()
        until = min(deadline, now + self._schedule.pause(now))
        self._notified.clear()
        while now < until:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._notified.wait(), until - now)
            self._notified.clear()
            now = time.monotonic()
            until = min(until, max(polled + self._schedule.spacing, self._schedule.next_poll))

    async def stop(self) -> None:
        self._part_from_parent()
        self._stopped = True
        task, self._task = self._task, None
        while task and not task.done():  # redis-py swallows a cancellation while it connects
            task.cancel()
            await asyncio.wait([task], timeout=0.5)
