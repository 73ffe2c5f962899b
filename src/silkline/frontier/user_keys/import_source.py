"""ImportSource: read or take over, in batches, the queue and the seen requests of another program."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

from silkline.frontier.arguments import embedded_in
from silkline.frontier.embedded.server import EmbeddedServer
from silkline.frontier.transport.command import Command, load
from silkline.frontier.transport.redis_url import read_url
from silkline.frontier.transport.sync.connection import SyncConnection

BATCH = 500
"""Entries per call. They can be large, and the server runs nothing else meanwhile."""


class SourceEntry(NamedTuple):
    """One member of a key."""

    data: bytes
    score: float | None
    """The score in a sorted set; None in other types."""


class SourcePart(NamedTuple):
    """A part of a key."""

    kind: str
    """The type as Redis names it: ``list``, ``set``, ``zset``, ...; ``none`` if the key does not exist."""
    size: int
    cursor: str
    """The cursor of the next part; "0" at the end."""
    entries: list[SourceEntry]


class SourceBatch(NamedTuple):
    """Entries that were taken out of a queue. They stay on the server until the batch is done."""

    name: str
    entries: list[SourceEntry]


class ImportSource:
    """Keys of another program, for sync code."""

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

    def look(self, key: str, cursor: str = "0", most: int = BATCH) -> SourcePart:
        """Read a part of a key. Like SCAN, reading to the end returns all members that are there all the time, some possibly twice.

        For a list, this requires that no client removes from its right end meanwhile.
        """
        return self._connection.call(source_read(key, cursor, most))

    def read(self, key: str) -> Iterator[SourcePart]:
        """Read a whole key, part by part."""
        cursor = "0"
        while True:
            look = self.look(key, cursor)
            yield look
            cursor = look.cursor
            if cursor == "0":
                return

    def set_aside(self, key: str, done: SourceBatch | None = None, refused: Sequence[int] = ()) -> SourceBatch:
        """Take the next batch out of a queue, so that no other client gets it; empty at the end of the queue.

        The previous batch is *done*. Its *refused* entries, given by position, are moved to ``key:silkline:refused``. If this
        process dies, the next caller gets the same batch.
        """
        return self._connection.call(source_take(key, done.name if done else "", refused))

    def close(self) -> None:
        self._connection.close()
        if self._embedded:
            self._embedded.leave()
            self._embedded = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def source_read(key: str, cursor: str, most: int) -> Command[SourcePart]:
    def decode(reply: list[Any]) -> SourcePart:
        return SourcePart(reply[0].decode(), int(reply[1]), reply[2].decode(), _entries(reply[3:]))

    return Command(load("source_read"), (key,), (cursor, most), decode)


def source_take(key: str, done: str, refused: Sequence[int]) -> Command[SourceBatch]:
    def decode(reply: list[bytes]) -> SourceBatch:
        return SourceBatch(reply[0].decode(), _entries(reply[1:])) if reply else SourceBatch("", [])

    name = secrets.token_hex(8)
    return Command(load("source_take"), (key,), (done, name, BATCH, *(position + 1 for position in refused)), decode)


def _entries(reply: Sequence[bytes]) -> list[SourceEntry]:
    return [SourceEntry(reply[i], float(reply[i + 1]) if reply[i + 1] else None) for i in range(0, len(reply), 2)]
