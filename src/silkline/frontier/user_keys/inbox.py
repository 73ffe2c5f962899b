"""Inbox: read messages from keys of the user without losing any."""

from __future__ import annotations

import itertools
import re
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

from silkline.errors import ConfigError, SilklineError
from silkline.frontier.arguments import milliseconds
from silkline.frontier.store.keys import InboxKeys
from silkline.frontier.transport.command import MAX_BATCH, Command, load
from silkline.frontier.transport.connection import AsyncConnection

KeyKind = Literal["list", "set", "zset", "stream", "any"]

DEFAULT_HOLD = 10.0
"""Seconds after which a message that was taken but not acknowledged can be taken again."""


MOST_BYTES = 1024 * 1024
"""Bytes of a message; inbox_take.lua has the same number. A larger one is moved to `InboxKeys.refused` when it is taken."""
_OVERSIZED = re.compile(rb"\0oversized (\d+)\0")


class Message(NamedTuple):
    """A message of an inbox."""

    key: str
    id: str
    data: bytes
    oversized: int = 0
    """The size of a message of more than `MOST_BYTES`; then *data* is only its beginning. 0 for all others."""


class Inbox:
    """Messages that any program can add to lists, sets, sorted sets or streams. Earlier keys are read first.

    A message that is taken stays on the server until it is `done`. If the process that took it dies, it can be taken again after
    the hold time: delivery is at least once.
    """

    def __init__(self, connection: AsyncConnection, keys: Sequence[InboxKeys], kind: KeyKind, hold_ms: int) -> None:
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

        A list is read from the left, a sorted set from the highest score, a stream from the oldest entry.
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

    async def release(self, messages: Iterable[Message]) -> None:
        """Give messages back: another caller can take them at once."""
        await self._each(messages, lambda keys, ids: inbox_extend(keys, 0, ids))

    async def done(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages: they are deleted."""
        await self._each(messages, inbox_ack)

    async def refuse(self, messages: Iterable[Message]) -> None:
        """Reject messages: they are moved to `InboxKeys.refused`, for inspection."""
        await self._each(messages, inbox_reject)

    async def _each(
        self, messages: Iterable[Message], command: Callable[[InboxKeys, Sequence[str]], Command[int]]
    ) -> None:
        ids: dict[str, list[str]] = {}
        for message in messages:
            ids.setdefault(message.key, []).append(message.id)
        for key, some in ids.items():
            for i in range(0, len(some), MAX_BATCH):
                await self._connection.call(command(InboxKeys(key), some[i : i + MAX_BATCH]))

    async def waiting(self) -> int:
        """Return the number of messages that are not acknowledged, on all keys."""
        return sum([await self._connection.call(inbox_count(keys)) for keys in self._keys])


def open_inbox(connection: AsyncConnection, keys: str | Iterable[str], kind: KeyKind, hold: float) -> Inbox:
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
    return Inbox(connection, several, kind, milliseconds("hold", hold))


def inbox_take(keys: InboxKeys, kind: KeyKind, wanted: int, hold_ms: int, ticket: str) -> Command[list[Message]]:
    """Take messages. *ticket* is the name of this call, so that it can be sent again."""

    def decode(reply: Any) -> list[Message]:
        if isinstance(reply, bytes):
            wanted_kind = "list, set, zset or stream" if kind == "any" else kind
            raise ConfigError(f"the key {keys.key!r} must be a {wanted_kind} of messages, but it is a {reply.decode()}")
        again = [_message(keys.key, reply[i].decode(), reply[i + 1]) for i in range(2, len(reply), 2)]
        return again + list(_new_messages(keys.key, ticket, reply[0], reply[1]))

    return Command(load("inbox_take"), (keys.key,), (keys.root, kind, wanted, hold_ms, ticket), decode)


def _new_messages(key: str, ticket: str, sizes: bytes, messages: bytes) -> Iterator[Message]:
    at = 0
    for number, (size,) in enumerate(struct.iter_unpack("<I", sizes), 1):
        yield _message(key, f"{ticket}:{number}", messages[at : at + size])
        at += size


def _message(key: str, id_: str, data: bytes) -> Message:
    marked = _OVERSIZED.match(data) if data[:1] == b"\0" else None
    return Message(key, id_, data[marked.end() :], int(marked[1])) if marked else Message(key, id_, data)


def inbox_extend(keys: InboxKeys, hold_ms: int, ids: Sequence[str]) -> Command[int]:
    return Command(load("inbox_extend"), (keys.root,), (hold_ms, "\n".join(ids)), int)


def inbox_ack(keys: InboxKeys, ids: Sequence[str]) -> Command[int]:
    return Command(load("inbox_ack"), (keys.root,), ("\n".join(ids),), int)


def inbox_reject(keys: InboxKeys, ids: Sequence[str]) -> Command[int]:
    return Command(load("inbox_reject"), (keys.root,), ("\n".join(ids),), int)


def inbox_count(keys: InboxKeys) -> Command[int]:
    return Command(load("inbox_count"), (keys.key,), (keys.root,), sum)
