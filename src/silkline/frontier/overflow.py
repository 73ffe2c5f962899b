"""Overflow: where links wait, on disk, while the crawl is full."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from silkline.core.errors import ConfigError, NewerData, StoreUnavailable
from silkline.core.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT = 1
TAKEN_SECONDS = 60
"""After so long, rows that a process took and never settled are handed out again."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS store (id TEXT PRIMARY KEY, format INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS waiting (
    id INTEGER PRIMARY KEY, crawl TEXT NOT NULL, request BLOB NOT NULL, taken INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS waiting_by_crawl ON waiting (crawl, taken, id);
"""
_decoder = msgspec.msgpack.Decoder(Request)


class Overflow(Protocol):
    """What the frontier asks of a store. What `put` took in must survive a crash once it has returned."""

    @property
    def name(self) -> str:
        """Tells this store from all others."""

    def put(self, crawl: str, requests: Sequence[Request]) -> None: ...

    def take(self, crawl: str, most: int) -> list[tuple[int, Request]]:
        """The oldest rows that nobody else has taken."""

    def settle(self, done: Sequence[int], back: Sequence[int]) -> None:
        """Delete the rows that found room, give back the others."""

    def count(self, crawl: str) -> int: ...

    def close(self) -> None: ...


class SqliteOverflow:
    """A SQLite file, shared by the processes of one machine."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_SCHEMA)
            self.name = self._identify()
        except sqlite3.Error as error:
            raise ConfigError(f"the overflow file {self._path} cannot be used: {error}") from None

    def _identify(self) -> str:
        with self._transaction():
            self._database.execute(
                "INSERT INTO store SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM store)", (uuid.uuid4().hex, FORMAT)
            )
            name, stored = self._database.execute("SELECT id, format FROM store").fetchone()
        if stored > FORMAT:
            raise NewerData(
                f"the overflow file {self._path} has format {stored}, this Silkline knows {FORMAT}: upgrade it"
            )
        return str(name)

    def put(self, crawl: str, requests: Sequence[Request]) -> None:
        rows = [(crawl, msgspec.msgpack.encode(request)) for request in requests]
        with self._transaction():
            self._database.executemany("INSERT INTO waiting (crawl, request) VALUES (?, ?)", rows)

    def take(self, crawl: str, most: int) -> list[tuple[int, Request]]:
        with self._transaction():
            rows = self._database.execute(
                "UPDATE waiting SET taken = unixepoch() WHERE id IN (SELECT id FROM waiting WHERE crawl = ? "
                "AND taken < unixepoch() - ? ORDER BY id LIMIT ?) RETURNING id, request",
                (crawl, TAKEN_SECONDS, most),
            ).fetchall()
        return sorted((row, _decoder.decode(request)) for row, request in rows)

    def settle(self, done: Sequence[int], back: Sequence[int]) -> None:
        with self._transaction():
            self._database.executemany("DELETE FROM waiting WHERE id = ?", [(row,) for row in done])
            self._database.executemany("UPDATE waiting SET taken = 0 WHERE id = ?", [(row,) for row in back])

    def count(self, crawl: str) -> int:
        with self._lock, self._errors():
            found = self._database.execute("SELECT count(*) FROM waiting WHERE crawl = ?", (crawl,)).fetchone()
        return int(found[0])

    def close(self) -> None:
        with self._lock:
            self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the overflow file {self._path} failed: {error}") from None


def open_overflow(value: Overflow | Path | str | None) -> Overflow | None:
    """What users write, a path or a store of their own, as a store."""
    return SqliteOverflow(value) if isinstance(value, str | Path) else value
