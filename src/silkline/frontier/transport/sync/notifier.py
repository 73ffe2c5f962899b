# Generated from notifier.py by tools/generate_sync.py. Do not edit: change that module and run `make sync`.
"""Wakes clients that wait for work: servers publish when a shard has some, and clients poll rarely.

A claim that waits subscribes to the channels of all shards. `PollSchedule` says when to poll which shard.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

from silkline.errors import StoreUnavailable
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.notifier import (
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
    cancellations,
    raise_if_cancelled,
    sleep,
)
from silkline.frontier.transport.sync.connection import SyncConnection


class SyncNotifier:
    """Listens while claims of a `SyncFrontier` wait. One of several waiting claims reads the messages, for all of them.

    It leaves its turn after each message, so that another claim reads when it ends, whether it found work, reached its deadline or
    was interrupted.
    """

    def __init__(self, connection: SyncConnection, layout: CrawlLayout, schedule: PollSchedule) -> None:
        self._connection = connection
        self._layout = layout
        self._schedule = schedule
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

    def listen(self) -> None:
        """Subscribe, unless that is done, and read the messages that have arrived. Returns at once if another claim reads.

        That claim, too, makes every shard due when it has subscribed. So nothing that is published from now on is missed.
        """
        self._part_from_parent()
        if self._stopped or not self._turn.enter_now():
            return
        with self._turn:
            if self._pubsub is None:
                self._start()
            while self._pubsub is not None and self._read_message(0):
                pass

    def _start(self) -> None:
        self._listening = self._connection.listen(channels(self._layout))
        try:
            self._pubsub, self._node = self._listening.__enter__()
            confirmation = Confirmation(len(self._layout.shards))
            while not confirmation.complete(self._get(READ_SECONDS)):
                pass
        except BaseException:
            self._drop()
            raise
        self._schedule.poll_all()

    def wait(self, polled: float, deadline: float) -> None:
        """Wait until a shard is due, or until the deadline. *polled* is the time of the last poll."""
        now = time.monotonic()
        until = min(deadline, now + self._schedule.pause(now))
        while now < until and (self._pubsub is not None or self._turn.taken_by_others):
            if self._turn.enter_now():
                with self._turn:
                    self._read_message(until - now)
            else:
                self._turn.wait(until - now)
            now = time.monotonic()
            until = min(until, max(polled + self._schedule.spacing, self._schedule.next_poll))
        if self._stopped and now < until:
            sleep(until - now)

    def _read_message(self, seconds: float) -> bool:
        try:
            return record_message(self._schedule, self._get(seconds))
        except StoreUnavailable as error:
            log.debug("notifications do not arrive, polling instead: %s", error)
            self._schedule.poll_all()
            return False

    def _get(self, seconds: float) -> Any:
        """Return the next message; None if there is none. After an interruption, every shard is due: a message may be lost."""
        pubsub, cancelled = self._pubsub, cancellations()
        try:
            message = pubsub.get_message(timeout=seconds) if pubsub else None
            raise_if_cancelled(cancelled)
        except Exception as error:  # noqa: BLE001 - translated
            self._drop()
            raise_if_cancelled(cancelled)  # the error may be that of a connection that was closed meanwhile
            raise translate(error, self._connection.target.public) from None
        except BaseException:
            self._schedule.poll_all()
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
        """Close the subscription. The next claim that waits subscribes again."""
        listening, self._listening, self._pubsub = self._listening, None, None
        if listening is not None:
            with suppress(Exception):
                listening.__exit__(None, None, None)
