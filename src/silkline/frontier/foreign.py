"""ForeignKeys: a queue and a set of seen requests that another program left on a server, read or taken over in batches."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

from silkline.frontier.address import read_url
from silkline.frontier.commands import Command
from silkline.frontier.connection import SyncConnection
from silkline.frontier.embedded import EmbeddedServer
from silkline.frontier.script import load
from silkline.frontier.wishes import embedded_in

BATCH = 500
"""Entries a call: they are of any size, and the server waits for nobody else meanwhile."""


class Entry(NamedTuple):
    """One member of a foreign key."""

    data: bytes
    score: float | None
    """In a sorted set."""


class Look(NamedTuple):
    """A part of a foreign key."""

    kind: str
    """``list``, ``set``, ``zset``, or what else it is; ``none`` when it is not there."""
    size: int
    cursor: str
    """Where to go on; "0" at the end."""
    entries: list[Entry]


class Batch(NamedTuple):
    """Entries that were set aside; they stay on the server until they are told to be through."""

    name: str
    entries: list[Entry]


class ForeignKeys:
    """Keys of another program, for plain code."""

    def __init__(self, connection: SyncConnection, embedded: EmbeddedServer | None) -> None:
        self._connection = connection
        self._embedded = embedded

    @classmethod
    def open(cls, url: str) -> Self:
        directory = embedded_in(url)
        embedded = EmbeddedServer.join(directory) if directory else None
        connection = None
        try:
            target = read_url(embedded.url if embedded else url)
            connection = SyncConnection(target, None, embedded.ensure if embedded else None)
            connection.start()
        except BaseException:
            if connection:
                connection.close()
            if embedded:
                embedded.leave()
            raise
        return cls(connection, embedded)

    def look(self, key: str, cursor: str = "0", most: int = BATCH) -> Look:
        """Some of a key. Members that stay while one goes on to the end are all met, a few perhaps twice.

        That holds for lists only while nobody takes from their right end.
        """
        return self._connection.call(peek(key, cursor, most))

    def read(self, key: str) -> Iterator[Look]:
        """All of a key, part by part."""
        cursor = "0"
        while True:
            look = self.look(key, cursor)
            yield look
            cursor = look.cursor
            if cursor == "0":
                return

    def set_aside(self, key: str, done: Batch | None = None, refused: Sequence[int] = ()) -> Batch:
        """Take the next batch out of a queue, so that nobody else gets it; empty when there is nothing left.

        The batch before is *done*; what was *refused* of it, by position, is kept in ``key:silkline:refused``. If we die
        in between, the next caller is given the same batch.
        """
        return self._connection.call(set_aside(key, done.name if done else "", refused))

    def close(self) -> None:
        self._connection.close()
        if self._embedded:
            self._embedded.leave()
            self._embedded = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def peek(key: str, cursor: str, most: int) -> Command[Look]:
    def decode(reply: list[Any]) -> Look:
        return Look(reply[0].decode(), int(reply[1]), reply[2].decode(), _entries(reply[3:]))

    return Command(load("peek"), (key,), (cursor, most), decode)


def set_aside(key: str, done: str, refused: Sequence[int]) -> Command[Batch]:
    def decode(reply: list[bytes]) -> Batch:
        return Batch(reply[0].decode(), _entries(reply[1:])) if reply else Batch("", [])

    name = secrets.token_hex(8)
    return Command(load("set_aside"), (key,), (done, name, BATCH, *(position + 1 for position in refused)), decode)


def _entries(reply: Sequence[bytes]) -> list[Entry]:
    return [Entry(reply[i], float(reply[i + 1]) if reply[i + 1] else None) for i in range(0, len(reply), 2)]
