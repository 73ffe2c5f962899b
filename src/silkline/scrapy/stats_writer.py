"""StatsWriter: a thread that brings what was counted to the server."""

from __future__ import annotations

import logging
import threading

from silkline.core.errors import SilklineError, StoreUnavailable
from silkline.frontier import commands
from silkline.frontier.commands import Command
from silkline.frontier.connection import SyncConnection
from silkline.frontier.crawls import visit
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.numbers import Change, Counter

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two writes."""
LAST_WORD = 10.0
"""Seconds for which the end of a spider waits for the last write."""


class StatsWriter:
    """Gathers changes, one per name, and sends them together. While the server is away it goes on gathering."""

    def __init__(self, url: str | None, key: str) -> None:
        self._url = url
        self._key = key
        self._counter = Counter(key)
        self._changes: dict[str, Change] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._clear_without: str | None = None
        self._thread = threading.Thread(target=self._run, name="silkline-stats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def note(self, change: Change) -> None:
        with self._lock:
            if change.verb == "clear":
                self._changes.clear()
            self._changes[change.name] = _merge(self._changes.get(change.name), change)

    def close(self, *, clear_without: str | None) -> None:
        """Write what is left. The hash is deleted if the crawl of that name is no longer there."""
        self._clear_without = clear_without
        self._closing.set()
        self._thread.join(LAST_WORD)
        if self._thread.is_alive():
            log.warning("The last numbers of %s could not be written: Redis is away", self._key)

    def _run(self) -> None:
        try:
            while not self._connected():
                if self._closing.wait(EVERY):
                    return
        except Exception:
            log.exception("The numbers of %s are not written", self._key)

    def _connected(self) -> bool:
        """Write until the spider closes; False if there was no connection to begin with."""
        try:
            with visit(self._url) as connection:
                while not self._closing.wait(EVERY):
                    self._write(connection)
                self._write(connection)
                self._end(connection)
            return True
        except StoreUnavailable as error:
            log.warning("The numbers of %s wait for Redis: %s", self._key, error)
            return False

    def _write(self, connection: SyncConnection) -> None:
        with self._lock:
            changes, self._changes = self._changes, {}
        if not changes:
            return
        command = self._counter.count(changes.values())
        while not self._sent(connection, command):
            if self._closing.wait(EVERY):
                connection.call(command)  # once more, and then it is given up
                break

    def _sent(self, connection: SyncConnection, command: Command[None]) -> bool:
        try:
            connection.call(command)
        except StoreUnavailable as error:
            log.warning("The numbers of %s wait for Redis: %s", self._key, error)
            return False
        return True

    def _end(self, connection: SyncConnection) -> None:
        if self._clear_without is None:
            return
        try:
            stored = connection.call(commands.read_settings(CrawlKeys(self._clear_without)))
        except StoreUnavailable:
            raise
        except SilklineError:
            return  # then it is there
        if stored is None:
            connection.call(self._counter.count([Change("clear")]))


def _merge(known: Change | None, change: Change) -> Change:
    """Two changes of one name as one."""
    if known is None or change.verb in ("set", "clear"):
        return change
    if change.verb == "add" and known.verb in ("add", "set"):
        if isinstance(known.value, str) or isinstance(change.value, str):
            return change
        return Change(known.verb, known.name, known.value + change.value)
    return change  # the collector has compared what it has, and the server compares it with what others had
