"""Overflow: where links wait, on disk, while the crawl is full."""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from silkline.core.errors import ConfigError, NewerData, StoreUnavailable
from silkline.core.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT = 1
TAKEN_SECONDS = 60
"""After so long, rows that a process took and never settled are handed out again."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS store (id TEXT PRIMARY KEY, format INTEGER NOT NULL, version INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS waiting (
    id INTEGER PRIMARY KEY, crawl TEXT NOT NULL, request BLOB NOT NULL, batch INTEGER, taken INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS waiting_by_crawl ON waiting (crawl, batch, id);
"""
_decoder = msgspec.msgpack.Decoder(Request)


class Taken(list[tuple[int, Request]]):
    """Rows that were taken together, each a number and a request.

    They stay together until they are settled: if their taker dies, the same *batch* is offered again, and acts once.
    """

    def __init__(self, rows: Sequence[tuple[int, Request]] = (), batch: int = 0) -> None:
        super().__init__(rows)
        self.batch = batch


class Tally(NamedTuple):
    """How many requests wait in a store; *version* grows with every change, so the latest tally can be told."""

    version: int
    requests: int


class Overflow(Protocol):
    """What the frontier asks of a store. What `put` took in must survive a crash once it has returned."""

    @property
    def name(self) -> str:
        """Tells this store from all others."""

    def put(self, crawl: str, requests: Sequence[Request]) -> None: ...

    def take(self, crawl: str, most: int) -> Taken:
        """The oldest rows that nobody else has taken, or a batch that was taken long ago and never settled."""

    def settle(self, done: Sequence[int], back: Sequence[int]) -> None:
        """Delete the rows that found room, give back the others."""

    def count(self, crawl: str) -> int: ...

    def tally(self, crawl: str) -> Tally: ...

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
                "INSERT INTO store (id, format) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM store)",
                (uuid.uuid4().hex, FORMAT),
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
            self._next_version()
            self._database.executemany("INSERT INTO waiting (crawl, request) VALUES (?, ?)", rows)

    def take(self, crawl: str, most: int) -> Taken:
        if not self.count(crawl):
            return Taken()
        now = int(time.time())
        with self._transaction():
            batch = self._abandoned(crawl, now) or self._gather(crawl, most)
            rows = self._database.execute(
                "UPDATE waiting SET taken = ? WHERE crawl = ? AND batch = ? RETURNING id, request", (now, crawl, batch)
            ).fetchall()
        return Taken([(row, self._read(row, request)) for row, request in sorted(rows)], batch)

    def _abandoned(self, crawl: str, now: int) -> int | None:
        """A batch whose taker seems to have died, or whose clock was ahead of ours."""
        found = self._database.execute(
            "SELECT min(batch) FROM waiting WHERE crawl = ? AND batch > 0 AND taken NOT BETWEEN ? AND ?",
            (crawl, now - TAKEN_SECONDS, now + TAKEN_SECONDS),
        ).fetchone()
        return None if found[0] is None else int(found[0])

    def _gather(self, crawl: str, most: int) -> int:
        batch = self._next_version()
        self._database.execute(
            "UPDATE waiting SET batch = ? WHERE id IN "
            "(SELECT id FROM waiting WHERE crawl = ? AND batch IS NULL ORDER BY id LIMIT ?)",
            (batch, crawl, most),
        )
        return batch

    def _next_version(self) -> int:
        return int(self._database.execute("UPDATE store SET version = version + 1 RETURNING version").fetchone()[0])

    def _read(self, row: int, request: bytes) -> Request:
        try:
            return _decoder.decode(request)
        except msgspec.MsgspecError as error:
            raise NewerData(f"row {row} of the overflow file {self._path} cannot be read: {error}") from None

    def settle(self, done: Sequence[int], back: Sequence[int]) -> None:
        with self._transaction():
            self._next_version()
            self._database.executemany("DELETE FROM waiting WHERE id = ?", [(row,) for row in done])
            self._database.executemany(
                "UPDATE waiting SET batch = NULL, taken = 0 WHERE id = ?", [(row,) for row in back]
            )

    def count(self, crawl: str) -> int:
        return self.tally(crawl).requests

    def tally(self, crawl: str) -> Tally:
        with self._lock, self._errors():
            found = self._database.execute(
                "SELECT version, (SELECT count(*) FROM waiting WHERE crawl = ?) FROM store", (crawl,)
            ).fetchone()
        return Tally(*found)

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


class LateOverflow:
    """The same, but the file is made when the first link has to wait, and found when another process has made it."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._store: SqliteOverflow | None = None

    @property
    def name(self) -> str:
        return self._open().name

    def put(self, crawl: str, requests: Sequence[Request]) -> None:
        self._open().put(crawl, requests)

    def take(self, crawl: str, most: int) -> Taken:
        return self._open().take(crawl, most) if self._is_there() else Taken()

    def settle(self, done: Sequence[int], back: Sequence[int]) -> None:
        self._open().settle(done, back)

    def count(self, crawl: str) -> int:
        return self.tally(crawl).requests

    def tally(self, crawl: str) -> Tally:
        return self._open().tally(crawl) if self._is_there() else Tally(0, 0)

    def close(self) -> None:
        if self._store:
            self._store.close()

    def _is_there(self) -> bool:
        return self._store is not None or self._path.exists()

    def _open(self) -> SqliteOverflow:
        """If that fails in the middle of a crawl it may pass, as a full disk does."""
        with self._lock:
            if self._store is None:
                try:
                    self._store = SqliteOverflow(self._path)
                except ConfigError as error:
                    raise StoreUnavailable(str(error)) from None
            return self._store


def open_overflow(value: Overflow | Path | str | None) -> Overflow | None:
    """What users write, a path or a store of their own, as a store."""
    return SqliteOverflow(value) if isinstance(value, str | Path) else value
