"""Inbox: read messages from keys of the user without losing any."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from silkline.errors import ConfigError, SilklineError
from silkline.frontier.arguments import milliseconds
from silkline.frontier.store.keys import InboxKeys
from silkline.frontier.transport.command import MAX_BATCH, Command, load
from silkline.frontier.transport.connection import AsyncConnection

Kind = Literal["list", "set", "zset"]

DEFAULT_HOLD = 10.0
"""Seconds after which a message that was taken but not acknowledged can be taken again."""


class Message(NamedTuple):
    """A message of an inbox."""

    key: str
    id: str
    data: bytes


class Inbox:
    """Messages that any program can add to lists, sets or sorted sets. Earlier keys are read first.

    A message that is taken stays on the server until it is `done`. If the process that took it dies, it can be taken again after
    the hold time: delivery is at least once.
    """

    def __init__(self, connection: AsyncConnection, keys: Sequence[InboxKeys], kind: Kind, hold_ms: int) -> None:
        self._connection = connection
        self._keys = keys
        self._kind = kind
        self._hold_ms = hold_ms
        self._name = secrets.token_hex(6)
        self._calls = itertools.count(1)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(keys.key for keys in self._keys)

    async def take(self, n: int = 1) -> list[Message]:
        """Take up to *n* messages: all of the first key, then those of the next.

        A list is read from the left, a sorted set from the highest score.
        """
        messages: list[Message] = []
        for keys in self._keys:
            wanted = min(n - len(messages), MAX_BATCH)
            if wanted < 1:
                break
            command = inbox_take(keys, self._kind, wanted, self._hold_ms, f"{self._name}:{next(self._calls)}")
            try:
                some = await self._connection.call(command)
            except SilklineError:
                if not messages:
                    raise
                break  # what was taken must reach the caller
            messages += some
        return messages

    async def extend(self, messages: Iterable[Message]) -> None:
        """Keep messages for another hold time: this process still works on them."""
        await self._each(messages, lambda keys, ids: inbox_extend(keys, self._hold_ms, ids))

    async def done(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages: they are deleted."""
        await self._each(messages, inbox_ack)

    async def refuse(self, messages: Iterable[Message]) -> None:
        """Reject messages: they are moved to `InboxKeys.refused`, for inspection."""
        await self._each(messages, inbox_reject)

    async def _each(self, messages: Iterable[Message], act: Callable[[InboxKeys, Sequence[str]], Command[int]]) -> None:
        ids: dict[str, list[str]] = {}
        for message in messages:
            ids.setdefault(message.key, []).append(message.id)
        for key, some in ids.items():
            for i in range(0, len(some), MAX_BATCH):
                await self._connection.call(act(InboxKeys(key), some[i : i + MAX_BATCH]))

    async def waiting(self) -> int:
        """Return the number of messages that are not acknowledged, on all keys."""
        return sum([await self._connection.call(inbox_count(keys)) for keys in self._keys])


def open_inbox(connection: AsyncConnection, keys: str | Iterable[str], kind: Kind, hold: float) -> Inbox:
    names = [keys] if isinstance(keys, str) else list(keys)
    if not names:
        raise ConfigError("an inbox needs at least one key")
    if kind not in get_args(Kind):
        raise ConfigError(f"kind must be one of {', '.join(get_args(Kind))}, got {kind!r}")
    several = [InboxKeys(name) for name in names]
    stray = [one.key for one in several if not one.fits_a_cluster]
    if stray and connection.target.kind == "cluster":
        raise ConfigError(
            f"on a cluster the key of an inbox must not have an unmatched brace: {', '.join(map(repr, stray))}"
        )
    return Inbox(connection, several, kind, milliseconds("hold", hold))


def inbox_take(keys: InboxKeys, kind: Kind, wanted: int, hold_ms: int, ticket: str) -> Command[list[Message]]:
    """Take messages. *ticket* is the name of this call, so that it can be sent again."""

    def decode(reply: Any) -> list[Message]:
        if isinstance(reply, bytes):
            raise ConfigError(f"the key {keys.key!r} must be a {kind} of messages, but it is a {reply.decode()}")
        return [Message(keys.key, reply[i].decode(), reply[i + 1]) for i in range(0, len(reply), 2)]

    return Command(load("inbox_take"), (keys.key,), (keys.root, kind, wanted, hold_ms, ticket), decode)


def inbox_extend(keys: InboxKeys, hold_ms: int, ids: Sequence[str]) -> Command[int]:
    return Command(load("inbox_extend"), (keys.root,), (hold_ms, *ids), int)


def inbox_ack(keys: InboxKeys, ids: Sequence[str]) -> Command[int]:
    return Command(load("inbox_ack"), (keys.root,), ids, int)


def inbox_reject(keys: InboxKeys, ids: Sequence[str]) -> Command[int]:
    return Command(load("inbox_reject"), (keys.root,), ids, int)


def inbox_count(keys: InboxKeys) -> Command[int]:
    return Command(load("inbox_count"), (keys.key,), (keys.root,), sum)
