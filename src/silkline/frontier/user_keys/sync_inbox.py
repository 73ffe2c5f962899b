# Generated from inbox.py by tools/generate_sync.py. Do not edit: change that module and run `make sync`.
"""SyncInbox: read messages from keys of the user without losing any."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import get_args

from silkline.errors import ConfigError, SilklineError
from silkline.frontier.arguments import milliseconds
from silkline.frontier.store.keys import InboxKeys
from silkline.frontier.transport.command import MAX_BATCH, Command
from silkline.frontier.transport.sync.connection import SyncConnection
from silkline.frontier.user_keys.inbox import (
    KeyKind,
    Message,
    inbox_ack,
    inbox_count,
    inbox_extend,
    inbox_reject,
    inbox_take,
)


class SyncInbox:
    """Messages that any program can add to lists, sets, sorted sets or streams. Earlier keys are read first.

    A message that is taken stays on the server until it is `done`. If the process that took it dies, it can be taken again after
    the hold time: delivery is at least once.
    """

    def __init__(self, connection: SyncConnection, keys: Sequence[InboxKeys], kind: KeyKind, hold_ms: int) -> None:
        self._connection = connection
        self._keys = keys
        self._kind = kind
        self._hold_ms = hold_ms
        self._name = secrets.token_hex(6)
        self._calls = itertools.count(1)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(keys.key for keys in self._keys)

    def take(self, n: int = 1) -> list[Message]:
        """Take up to *n* messages: all of the first key, then those of the next.

        A list is read from the left, a sorted set from the highest score, a stream from the oldest entry.
        """
        messages: list[Message] = []
        for keys in self._keys:
            wanted = min(n - len(messages), MAX_BATCH)
            if wanted < 1:
                break
            command = inbox_take(keys, self._kind, wanted, self._hold_ms, f"{self._name}:{next(self._calls)}")
            try:
                some = self._connection.call(command)
            except SilklineError:
                if not messages:
                    raise
                break  # what was taken must reach the caller
            messages += some
        return messages

    def extend(self, messages: Iterable[Message]) -> None:
        """Keep messages for another hold time: this process still works on them."""
        self._each(messages, lambda keys, ids: inbox_extend(keys, self._hold_ms, ids))

    def release(self, messages: Iterable[Message]) -> None:
        """Give messages back: another caller can take them at once."""
        self._each(messages, lambda keys, ids: inbox_extend(keys, 0, ids))

    def done(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages: they are deleted."""
        self._each(messages, inbox_ack)

    def refuse(self, messages: Iterable[Message]) -> None:
        """Reject messages: they are moved to `InboxKeys.refused`, for inspection."""
        self._each(messages, inbox_reject)

    def _each(self, messages: Iterable[Message], command: Callable[[InboxKeys, Sequence[str]], Command[int]]) -> None:
        ids: dict[str, list[str]] = {}
        for message in messages:
            ids.setdefault(message.key, []).append(message.id)
        for key, some in ids.items():
            for i in range(0, len(some), MAX_BATCH):
                self._connection.call(command(InboxKeys(key), some[i : i + MAX_BATCH]))

    def waiting(self) -> int:
        """Return the number of messages that are not acknowledged, on all keys."""
        return sum([self._connection.call(inbox_count(keys)) for keys in self._keys])


def open_inbox(connection: SyncConnection, keys: str | Iterable[str], kind: KeyKind, hold: float) -> SyncInbox:
    names = [keys] if isinstance(keys, str) else list(keys)
    if not names:
        raise ConfigError("an inbox needs at least one key")
    if kind not in get_args(KeyKind):
        raise ConfigError(f"kind must be one of {', '.join(get_args(KeyKind))}, got {kind!r}")
    several = [InboxKeys(name) for name in names]
    stray = [one.key for one in several if not one.fits_a_cluster]
    if stray and connection.target.kind == "cluster":
        raise ConfigError(
            f"on a cluster the key of an inbox must not have an unmatched brace: {', '.join(map(repr, stray))}"
        )
    return SyncInbox(connection, several, kind, milliseconds("hold", hold))
