"""Wakes threads that wait for work.

Written by hand: the async notifier reads messages in a task, which plain code does not have (see `transport.notifier`).
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
from silkline.frontier.transport.sync.concurrency import SyncLimiter
from silkline.frontier.transport.sync.connection import SyncConnection


class SyncNotifier:
    """Listens while a claim of a `SyncFrontier` waits. One of several waiting threads listens for all."""

    def __init__(self, connection: SyncConnection, layout: CrawlLayout, schedule: PollSchedule) -> None:
        self._connection = connection
        self._layout = layout
        self._schedule = schedule
        self._inherited: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._turn = SyncLimiter(1)
        self._listening: Any = None
        self._pubsub: Any = None
        self._node: Any = None

    def _part_from_parent(self) -> None:
        """In a forked child, start without the connection of the parent."""
        if self._pid != os.getpid():
            self._inherited.append((self._listening, self._pubsub))
            self._begin()

    def listen(self) -> None:
        """Subscribe, unless that is done, and read the messages that have arrived. Returns at once if another thread listens."""
        self._part_from_parent()
        if not self._turn.enter_now():
            return
        with self._turn:
            if self._pubsub is None:
                self._start()
            while self._pubsub is not None and self._read_message(0):
                pass

    def _start(self) -> None:
        self._listening = self._connection.listen(channels(self._layout))
        self._pubsub, self._node = self._listening.__enter__()
        confirmation = Confirmation(len(self._layout.shards))
        try:
            while not confirmation.complete(self._get(READ_SECONDS)):
                pass
        except StoreUnavailable:
            self.stop()
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

    def _read_message(self, timeout: float) -> bool:
        try:
            return record_message(self._schedule, self._get(timeout))
        except StoreUnavailable as error:
            log.debug("notifications do not arrive, polling instead: %s", error)
            self._schedule.poll_all()
            return False

    def _get(self, timeout: float) -> Any:
        pubsub = self._pubsub
        try:
            message = pubsub.get_message(timeout=timeout) if pubsub else None
        except Exception as error:  # noqa: BLE001 - translated
            self.stop()
            raise translate(error, self._connection.target.public) from None
        if message is None and pubsub and self._node.down:
            self.stop()
            raise node_down(self._node.name)
        return message

    def stop(self) -> None:
        self._part_from_parent()
        if self._listening is not None:
            listening, self._listening, self._pubsub = self._listening, None, None
            with suppress(Exception):
                listening.__exit__(None, None, None)
