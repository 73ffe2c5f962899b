"""Wakes clients that wait for work or for results: servers publish when there are some, and clients poll rarely.

A claim that waits subscribes to the channels of all shards. `PollSchedule` says when to poll which shard. A process that waits for
results subscribes to one channel, which no other process has.
"""

from __future__ import annotations

import logging
import math
import os
import time
from bisect import insort
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from silkline.errors import SilklineError, StoreUnavailable
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.connection import (
    READS_RESUME,
    AsyncConnection,
    cancellations,
    raise_if_cancelled,
    read_message,
    sleep,
)
from silkline.frontier.transport.nodes import AsyncLimiter, AsyncSignal, may_have_data
from silkline.frontier.transport.redis_errors import translate

SAFETY_POLL = 5.0
"""Seconds after which a shard is polled without a notification, in case one got lost."""

SPACING = (0.0, 0.01, 0.025, 0.06)
"""Seconds between consecutive polls that find nothing: short at first, then fewer than 20 polls a second.

Polls after a notification are counted apart. If they find nothing, other clients were faster; a client that finds work each time
polls at once, whatever its other polls have found.
"""

EMPTY_FOR = 1.0
"""Seconds for which a shard that had nothing to claim is polled after the others, without a notification."""
EXTRA_SHARE = 0.09
"""How many further polls each poll allows, in which a shard is polled again because others had requests of a higher priority."""
LAST = 10_000
"""The place of shards that are polled last, after those with the lowest priority."""
SURPRISE = -0.5
"""The place of shards on which requests were due since the last poll, of any priority: before those that have requests of priority 0."""

READ_SECONDS = 3.0
"""Seconds to wait for a message before the node is checked."""
CONFIRM_SECONDS = 10.0
"""Seconds to wait for the confirmation of all subscriptions."""
LOOK = b"+"
"""The message about a result that must be read from its shard (announce.lua has the same)."""
log = logging.getLogger("silkline.notifier")


class PollSchedule:
    """When to poll which shard. Times are seconds of any monotonic clock."""

    def __init__(self, shards: int, priorities: dict[int, int] | None = None) -> None:
        """The highest known *priorities* by shard, without those of 0, may be changed by others too."""
        self.priorities = {} if priorities is None else priorities
        self._next = [0.0] * shards
        self._emptied = [-math.inf] * shards  # the last time at which a shard had nothing to claim
        self._later = [math.inf] * shards  # when requests are due or hosts open whose priority is not known
        self._prioritized = bool(self.priorities)  # whether the crawl has priorities
        self._extra_polls = float(shards)
        self._notified = [(-math.inf, math.inf)] * shards  # the time of the last notification, and when it said to poll
        self._failing: set[int] = set()
        self._turn = 0
        self._polled = self._counted = -math.inf
        self._empty_polls = 0
        self._lost_races = (
            0  # one is nothing: the notification may be about work that this client has found just before
        )
        self._race_lost = False  # whether a poll since the last wait found nothing although there was a notification
        self._safety = max(SAFETY_POLL, shards / 10)

    def due(self, now: float) -> list[int]:
        """Return the shards to poll now: the highest priority first, and last those that have just had nothing.

        Each call starts at another shard, so that none is preferred.
        """
        count = len(self._next)
        if count == 1:
            return [0] if self._next[0] <= now else []
        self._turn = (self._turn + 1) % count
        order = (*range(self._turn, count), *range(self._turn))
        due = [shard for shard in order if self._next[shard] <= now]
        self._prioritized = self._prioritized or bool(self.priorities)
        if self._prioritized or max(self._emptied) > now - EMPTY_FOR:
            due.sort(key=partial(self._rank, now))
        return due

    def _rank(self, now: float, shard: int) -> float:
        """Return the place of a shard in the order of polls."""
        priority = self.priorities.get(shard)
        if priority is None:
            if self._prioritized and self._later[shard] <= now:
                return SURPRISE
            return LAST if self._emptied[shard] > now - EMPTY_FOR else 0
        return -priority

    def floor(self, order: Sequence[int], place: int, now: float) -> int | None:
        """Return the lowest priority to claim from a shard, given those to be polled next, from *place* on; None for all."""
        if not self.priorities or place == len(order):
            return None
        self._extra_polls = min(self._extra_polls + EXTRA_SHARE, len(self._next))
        rank = self._rank(now, order[place])
        return None if rank == LAST or self._extra_polls < 1 else -int(rank)

    def poll_again(self, order: list[int], place: int, shard: int, now: float) -> None:
        """Insert a shard that has requests below the floor into the polls that follow, from *place* on."""
        self._extra_polls -= 1
        insort(order, shard, lo=place, key=partial(self._rank, now))

    def replied(
        self, shard: int, poll_in: float | None, *, asked: float, now: float, found: bool = False, priority: int = 0
    ) -> None:
        """Record the reply of a shard to a poll at *asked*: in how many seconds to poll it again, None if unknown.

        *found* is whether the poll found work; *priority* is that of the next request, if there is more.
        """
        self._failing.discard(shard)
        self._set_priority(shard, priority)
        self._emptied[shard] = -math.inf if poll_in == 0 else now
        if self._later[shard] <= asked:
            self._later[shard] = math.inf
        self._polled = asked
        notified, due = self._notified[shard]
        if found:
            self._empty_polls = self._lost_races = 0
            self._race_lost = False
        elif notified < asked and due <= asked:
            self._race_lost = True
        if notified < asked:
            self._notified[shard] = (notified, math.inf)
            due = math.inf
        self._next[shard] = min(due, now + min(self._safety, math.inf if poll_in is None else poll_in))

    def _set_priority(self, shard: int, priority: int) -> None:
        if priority:
            self.priorities[shard] = priority
        elif self.priorities:
            self.priorities.pop(shard, None)

    def failed(self, shard: int, again_in: float, *, asked: float, now: float) -> None:
        """Record that a shard polled at *asked* could not be reached; the other shards are polled first."""
        self.replied(shard, again_in, asked=asked, now=now)
        self._failing.add(shard)

    @property
    def all_failed(self) -> bool:
        """Whether the last poll of every shard failed."""
        return len(self._failing) == len(self._next)

    def notified(self, shard: int, poll_in: float, now: float, priority: int = 0) -> None:
        """Record a notification. It may arrive before the reply to an earlier poll, which must not overwrite it.

        *priority* is that of the requests that may be claimed now, if it is above 0.
        """
        if poll_in <= 0:
            self._set_priority(shard, priority)
            self._emptied[shard] = -math.inf
        else:
            self._later[shard] = min(self._later[shard], now + poll_in)
        self._notified[shard] = (now, min(self._notified[shard][1], now + poll_in))
        self._next[shard] = min(self._next[shard], now + poll_in)

    def poll_all(self) -> None:
        """Make every shard due."""
        self._next = [0.0] * len(self._next)

    def waits(self) -> None:
        """Record that a client waits. If it has polled since it last did, these polls have found nothing."""
        if self._polled > self._counted:
            self._empty_polls = min(self._empty_polls + 1, len(SPACING) - 1)
            self._lost_races = min(self._lost_races + self._race_lost, len(SPACING))
        self._counted, self._race_lost = self._polled, False

    @property
    def next_poll(self) -> float:
        """When the next shard is due."""
        return min(self._next)

    @property
    def next_turn(self) -> float:
        """When to poll next: when a shard is due, but some time after the last poll if that has found nothing."""
        notified = min(due for _, due in self._notified)
        return min(
            max(self.next_poll, self._polled + SPACING[self._empty_polls]),
            max(notified, self._polled + SPACING[max(0, self._lost_races - 1)]),
        )


def record_message(schedule: PollSchedule, message: dict[str, Any] | None) -> bool:
    """Enter a message into the schedule; returns whether there was one."""
    if message and message["type"] == "subscribe":
        schedule.poll_all()  # notifications arrive from now on; earlier ones may be lost
        return True
    if not message or message["type"] != "message":
        return False
    channel = message["channel"].decode()
    shard = int(channel.rpartition("}")[0].rpartition(":")[2])
    number = int(message["data"])
    schedule.notified(shard, max(0, number) / 1000, time.monotonic(), max(0, -number))
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


class AsyncListener:
    """Reads the messages of some channels, while tasks wait for them. One of several that wait reads, for all of them."""

    role = "notifications"
    """The role of its connection."""

    def __init__(self, connection: AsyncConnection, channels: Sequence[str]) -> None:
        self._connection = connection
        self._channels = channels
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

    def _record(self, message: Any) -> bool:
        """Enter a message; returns whether there was one."""
        raise NotImplementedError

    def _may_have_missed(self) -> None:
        """Record that messages may be lost."""
        raise NotImplementedError

    async def listen(self) -> None:
        """Subscribe, unless that is done, and read the messages that have arrived. Returns at once if another task reads.

        That task, too, records that messages may be lost when it has subscribed. So nothing that is published from now on is missed.
        """
        self._part_from_parent()
        if self._stopped or not self._turn.enter_now():
            return
        async with self._turn:
            if self._pubsub is None:
                await self._start()
            while self._pubsub and await may_have_data(self._pubsub.connection) and await self._read_message(0):
                pass

    async def _start(self) -> None:
        self._listening = self._connection.listen(self._channels, self.role)
        try:
            self._pubsub, self._node = await self._listening.__aenter__()
            confirmation = Confirmation(len(self._channels))
            while not confirmation.complete(await self._get(READ_SECONDS)):
                pass
        except BaseException:
            await self._drop()
            raise
        self._may_have_missed()

    async def _read_message(self, seconds: float) -> bool:
        try:
            return self._record(await self._get(seconds))
        except StoreUnavailable as error:
            log.debug("notifications do not arrive, polling instead: %s", error)
            self._may_have_missed()
            return False

    async def _get(self, seconds: float) -> Any:
        """Return the next message; None if there is none. After an interruption, a message may be lost."""
        pubsub, cancelled = self._pubsub, cancellations()
        try:
            message = await read_message(pubsub, seconds) if pubsub else None
            raise_if_cancelled(cancelled)
        except Exception as error:  # noqa: BLE001 - translated
            await self._drop()
            raise_if_cancelled(cancelled)  # the error may be that of a connection that was closed meanwhile
            raise translate(error, self._connection.target.public) from None
        except BaseException:
            self._may_have_missed()
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
        """Close the subscription. The next task that waits subscribes again."""
        listening, self._listening, self._pubsub = self._listening, None, None
        if listening is not None:
            with suppress(Exception):
                await listening.__aexit__(None, None, None)


class AsyncNotifier(AsyncListener):
    """Listens while claims of a `Frontier` wait.

    A claim that reads leaves its turn after each message, so that another one reads when it ends, whether it found work, reached its
    deadline or was interrupted.
    """

    def __init__(self, connection: AsyncConnection, layout: CrawlLayout, schedule: PollSchedule) -> None:
        super().__init__(connection, channels(layout))
        self._schedule = schedule

    @property
    def is_quiet(self) -> bool:
        """Whether messages arrive, and no shard is due: there is nothing to poll before `wait`."""
        listens = self._pubsub is not None and self._pid == os.getpid()
        return listens and self._schedule.next_poll > time.monotonic()

    def _record(self, message: Any) -> bool:
        return record_message(self._schedule, message)

    def _may_have_missed(self) -> None:
        """Make every shard due."""
        self._schedule.poll_all()

    async def wait(self, deadline: float) -> None:
        """Wait until it is time for the next poll, or until the deadline."""
        self._schedule.waits()
        while True:
            now, until = time.monotonic(), min(deadline, self._schedule.next_turn)
            if now >= until:
                return
            if self._stopped:
                await sleep(until - now)
            elif self._pubsub is None and not self._turn.taken_by_others:
                return  # the next claim subscribes again
            elif self._turn.enter_now():
                async with self._turn:
                    await self._read_message(until - now)
            else:
                await self._turn.wait(until - now)


class AsyncAwaited:
    """A task that waits for the message about one request."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.signal = AsyncSignal()
        self.message: bytes | None = None


class AsyncResultListener(AsyncListener):
    """Listens while callers wait for results. The scripts that end requests publish on its channel which ones have ended.

    The caller that reads does so until its message arrives. Then it wakes another one, which reads from then on.
    """

    role = "results"

    def __init__(self, connection: AsyncConnection, channel: str) -> None:
        super().__init__(connection, [channel])
        self.channel = channel
        self._waiting: dict[str, tuple[AsyncAwaited, ...]] = {}
        self._failed = False

    @property
    def subscribed(self) -> bool:
        """Whether messages arrive, or another caller subscribes."""
        return self._pubsub is not None or self._turn.taken_by_others

    async def listen(self) -> None:
        """Subscribe, unless that is done. If that fails, `subscribed` is false."""
        if not self._failed:
            try:
                await super().listen()
            except SilklineError as error:
                self._failed = not isinstance(error, StoreUnavailable)
                log.debug("notifications of results do not arrive, polling instead: %s", error)

    def expect(self, name: str) -> AsyncAwaited:
        """Keep the message about a request until `forget` is called."""
        awaited = AsyncAwaited(name)
        self._waiting[name] = (*self._waiting.get(name, ()), awaited)
        return awaited

    def forget(self, awaited: AsyncAwaited) -> None:
        """End the wait of a caller, and let another one read."""
        left = tuple(other for other in self._waiting.pop(awaited.name, ()) if other is not awaited)
        if left:
            self._waiting[awaited.name] = left
        if not self._turn.taken_by_others:
            for others in list(self._waiting.values())[:1]:
                others[0].signal.set()

    async def wait(self, awaited: AsyncAwaited, until: float) -> bytes | None:
        """Return the message about a request; None if there is none until that time."""
        while awaited.message is None and (left := until - time.monotonic()) > 0:
            if self._stopped or not self.subscribed:
                await sleep(left)
            elif self._turn.enter_now():
                async with self._turn:
                    if awaited.message is None:  # the task that has just read may have got it
                        await self._read_message(left)
            else:
                await awaited.signal.wait(left)
        message, awaited.message = awaited.message, None
        return message

    def _record(self, message: Any) -> bool:
        if message and message["type"] == "message":
            name, _, rest = message["data"].partition(b"\n")
            self._pass_on(self._waiting.get(name.decode(), ()), rest)
        return message is not None

    def _may_have_missed(self) -> None:
        """Let all callers look for their results."""
        for waiting in list(self._waiting.values()):
            self._pass_on(waiting, LOOK)

    def _pass_on(self, waiting: Sequence[AsyncAwaited], message: bytes) -> None:
        for awaited in waiting:
            awaited.message = message
            awaited.signal.set()
