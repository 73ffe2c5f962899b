# Generated from notifier.py by tools/generate_sync.py. Do not edit: change that module and run `make sync`.
"""Wakes clients that wait for work or for results: servers publish when there are some, and clients poll rarely.

A claim that waits subscribes to the channels of all shards. `PollSchedule` says when to poll which shard. A process that waits for
results subscribes to one channel, which no other process has.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from silkline.errors import SilklineError, StoreUnavailable
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.notifier import (
    LOOK,
    READ_SECONDS,
    Confirmation,
    PollSchedule,
    channels,
    log,
    node_down,
    record_message,
)
from silkline.frontier.transport.redis_errors import translate
from silkline.frontier.transport.sync.concurrency import (
    READS_RESUME,
    SyncLimiter,
    SyncSignal,
    cancellations,
    may_have_data,
    raise_if_cancelled,
    read_message,
    sleep,
)
from silkline.frontier.transport.sync.connection import SyncConnection


class SyncListener:
    """Reads the messages of some channels, while tasks wait for them. One of several that wait reads, for all of them."""

    role = "notifications"
    """The role of its connection."""

    def __init__(self, connection: SyncConnection, channels: Sequence[str]) -> None:
        self._connection = connection
        self._channels = channels
        self._inherited: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._stopped = False
        self._turn = SyncLimiter(1)
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

    def listen(self) -> None:
        """Subscribe, unless that is done, and read the messages that have arrived. Returns at once if another task reads.

        That task, too, records that messages may be lost when it has subscribed. So nothing that is published from now on is missed.
        """
        self._part_from_parent()
        if self._stopped or not self._turn.enter_now():
            return
        with self._turn:
            if self._pubsub is None:
                self._start()
            while self._pubsub and may_have_data(self._pubsub.connection) and self._read_message(0):
                pass

    def _start(self) -> None:
        self._listening = self._connection.listen(self._channels, self.role)
        try:
            self._pubsub, self._node = self._listening.__enter__()
            confirmation = Confirmation(len(self._channels))
            while not confirmation.complete(self._get(READ_SECONDS)):
                pass
        except BaseException:
            self._drop()
            raise
        self._may_have_missed()

    def _read_message(self, seconds: float) -> bool:
        try:
            return self._record(self._get(seconds))
        except StoreUnavailable as error:
            log.debug("notifications do not arrive, polling instead: %s", error)
            self._may_have_missed()
            return False

    def _get(self, seconds: float) -> Any:
        """Return the next message; None if there is none. After an interruption, a message may be lost."""
        pubsub, cancelled = self._pubsub, cancellations()
        try:
            message = read_message(pubsub, seconds) if pubsub else None
            raise_if_cancelled(cancelled)
        except Exception as error:  # noqa: BLE001 - translated
            self._drop()
            raise_if_cancelled(cancelled)  # the error may be that of a connection that was closed meanwhile
            raise translate(error, self._connection.target.public) from None
        except BaseException:
            self._may_have_missed()
            if not READS_RESUME:
                self._drop()
            raise
        if message is None and pubsub and self._node.down:
            self._drop()
            raise node_down(self._node.name)
        return message

    def stop(self) -> None:
        self._part_from_parent()
        self._stopped = True
        self._drop()

    def _drop(self) -> None:
        """Close the subscription. The next task that waits subscribes again."""
        listening, self._listening, self._pubsub = self._listening, None, None
        if listening is not None:
            with suppress(Exception):
                listening.__exit__(None, None, None)


class SyncNotifier(SyncListener):
    """Listens while claims of a `SyncFrontier` wait.

    A claim that reads leaves its turn after each message, so that another one reads when it ends, whether it found work, reached its
    deadline or was interrupted.
    """

    def __init__(self, connection: SyncConnection, layout: CrawlLayout, schedule: PollSchedule) -> None:
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

    def wait(self, deadline: float) -> None:
        """Wait until it is time for the next poll, or until the deadline."""
        self._schedule.waits()
        while True:
            now, until = time.monotonic(), min(deadline, self._schedule.next_turn)
            if now >= until:
                return
            if self._stopped:
                sleep(until - now)
            elif self._pubsub is None and not self._turn.taken_by_others:
                return  # the next claim subscribes again
            elif self._turn.enter_now():
                with self._turn:
                    self._read_message(until - now)
            else:
                self._turn.wait(until - now)


class SyncAwaited:
    """A task that waits for the message about one request."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.signal = SyncSignal()
        self.message: bytes | None = None


class SyncResultListener(SyncListener):
    """Listens while callers wait for results. The scripts that end requests publish on its channel which ones have ended.

    The caller that reads does so until its message arrives. Then it wakes another one, which reads from then on.
    """

    role = "results"

    def __init__(self, connection: SyncConnection, channel: str) -> None:
        super().__init__(connection, [channel])
        self.channel = channel
        self._waiting: dict[str, tuple[SyncAwaited, ...]] = {}
        self._failed = False

    @property
    def subscribed(self) -> bool:
        """Whether messages arrive, or another caller subscribes."""
        return self._pubsub is not None or self._turn.taken_by_others

    def listen(self) -> None:
        """Subscribe, unless that is done. If that fails, `subscribed` is false."""
        if not self._failed:
            try:
                super().listen()
            except SilklineError as error:
                self._failed = not isinstance(error, StoreUnavailable)
                log.debug("notifications of results do not arrive, polling instead: %s", error)

    def expect(self, name: str) -> SyncAwaited:
        """Keep the message about a request until `forget` is called."""
        awaited = SyncAwaited(name)
        self._waiting[name] = (*self._waiting.get(name, ()), awaited)
        return awaited

    def forget(self, awaited: SyncAwaited) -> None:
        """End the wait of a caller, and let another one read."""
        left = tuple(other for other in self._waiting.pop(awaited.name, ()) if other is not awaited)
        if left:
            self._waiting[awaited.name] = left
        if not self._turn.taken_by_others:
            for others in list(self._waiting.values())[:1]:
                others[0].signal.set()

    def wait(self, awaited: SyncAwaited, until: float) -> bytes | None:
        """Return the message about a request; None if there is none until that time."""
        while awaited.message is None and (left := until - time.monotonic()) > 0:
            if self._stopped or not self.subscribed:
                sleep(left)
            elif self._turn.enter_now():
                with self._turn:
                    if awaited.message is None:  # the task that has just read may have got it
                        self._read_message(left)
            else:
                awaited.signal.wait(left)
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

    def _pass_on(self, waiting: Sequence[SyncAwaited], message: bytes) -> None:
        for awaited in waiting:
            awaited.message = message
            awaited.signal.set()
