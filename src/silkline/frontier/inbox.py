"""Inbox: keys of the user's own, read so that no message gets lost."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from silkline.core.errors import ConfigError, SilklineError
from silkline.frontier.commands import MAX_BATCH, Command
from silkline.frontier.connection import AsyncConnection
from silkline.frontier.keys import InboxKeys
from silkline.frontier.script import load
from silkline.frontier.wishes import milliseconds

Kind = Literal["list", "set", "zset"]

DEFAULT_HOLD = 10.0
"""Seconds after which a message that was taken and not seen through may be taken again."""


class Message(NamedTuple):
    """What somebody left in an inbox."""

    key: str
    id: str
    data: bytes


class Inbox:
    """Messages that anybody may leave in lists, sets or sorted sets, of which the first key comes first.

    A message that is taken stays on the server until it is `done`. If that does not happen in time, because its taker
    died, it is taken again: so none is lost, and one whose taker died at the wrong moment may come twice.
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
        """Up to *n* messages: of the first key as many as it has, then of the next.

        A list is read from the left, a sorted set from the highest score.
        """
        messages: list[Message] = []
        for keys in self._keys:
            wanted = min(n - len(messages), MAX_BATCH)
            if wanted < 1:
                break
            command = take(keys, self._kind, wanted, self._hold_ms, f"{self._name}:{next(self._calls)}")
            try:
                some = await self._connection.call(command)
            except SilklineError:
                if not messages:
                    raise
                break  # what was taken must reach the caller
            messages += some
        return messages

    async def done(self, messages: Iterable[Message]) -> None:
        """These have been seen through, and are not to be taken again."""
        await self._end(messages, done)

    async def refuse(self, messages: Iterable[Message]) -> None:
        """These come to nothing: they are put aside, in `InboxKeys.refused`, for people to look at."""
        await self._end(messages, refuse)

    async def _end(self, messages: Iterable[Message], end: Callable[[InboxKeys, Sequence[str]], Command[int]]) -> None:
        ids: dict[str, list[str]] = {}
        for message in messages:
            ids.setdefault(message.key, []).append(message.id)
        for key, some in ids.items():
            for i in range(0, len(some), MAX_BATCH):
                await self._connection.call(end(InboxKeys(key), some[i : i + MAX_BATCH]))

    async def waiting(self) -> int:
        """How many messages nobody has seen through, on all keys."""
        return sum([await self._connection.call(waiting(keys)) for keys in self._keys])


def open_inbox(connection: AsyncConnection, keys: str | Iterable[str], kind: Kind, hold: float) -> Inbox:
    names = [keys] if isinstance(keys, str) else list(keys)
    if not names:
        raise ConfigError("an inbox needs at least one key")
    if kind not in get_args(Kind):
        raise ConfigError(f"an inbox is a {', '.join(get_args(Kind))}, got {kind!r}")
    several = [InboxKeys(name) for name in names]
    stray = [one.key for one in several if not one.fits_a_cluster]
    if stray and connection.target.kind == "cluster":
        raise ConfigError(f"on a cluster the key of an inbox cannot have a stray brace: {', '.join(map(repr, stray))}")
    return Inbox(connection, several, kind, milliseconds("hold", hold))


def take(keys: InboxKeys, kind: Kind, wanted: int, hold_ms: int, ticket: str) -> Command[list[Message]]:
    """Take messages; *ticket* names this call, so that it can be sent again."""

    def decode(reply: Any) -> list[Message]:
        if isinstance(reply, bytes):
            raise ConfigError(f"the key {keys.key!r} is to be a {kind} of messages, and it is a {reply.decode()}")
        return [Message(keys.key, reply[i].decode(), reply[i + 1]) for i in range(0, len(reply), 2)]

    return Command(load("take"), (keys.key,), (keys.root, kind, wanted, hold_ms, ticket), decode)


def done(keys: InboxKeys, ids: Sequence[str]) -> Command[int]:
    return Command(load("done"), (keys.root,), ids, int)


def refuse(keys: InboxKeys, ids: Sequence[str]) -> Command[int]:
    return Command(load("refuse"), (keys.root,), ids, int)


def waiting(keys: InboxKeys) -> Command[int]:
    return Command(load("waiting"), (keys.key,), (keys.root,), sum)
