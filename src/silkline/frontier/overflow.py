"""Overflow: a file on disk in which links wait while the crawl is full.

Two processes must not share a connection to a SQLite file. A forked child opens the file again, and neither uses nor closes the
connection of its parent.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import WeakSet

import msgspec

from silkline.core.request import Request, host_of
from silkline.core.url import parse
from silkline.errors import ConfigError, NewerData, StoreUnavailable
from silkline.frontier.arguments import embedded_in

if TYPE_CHECKING:
    from collections.abc import Iterator


FORMAT = 1
TAKEN_SECONDS = 60
"""Seconds after which rows that a process took but did not settle can be taken again."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS store (id TEXT PRIMARY KEY, format INTEGER NOT NULL, version INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS waiting (
    id INTEGER PRIMARY KEY, crawl TEXT NOT NULL, request BLOB NOT NULL, batch INTEGER, taken INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS waiting_by_crawl ON waiting (crawl, batch, id);
CREATE TABLE IF NOT EXISTS refused (crawl TEXT PRIMARY KEY, requests INTEGER NOT NULL);
"""
_HOSTS = (
    "ALTER TABLE waiting ADD COLUMN host TEXT NOT NULL DEFAULT ''",
    """CREATE TABLE hosts (
        crawl TEXT NOT NULL, host TEXT NOT NULL, waiting INTEGER NOT NULL, turn INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (crawl, host)
    ) WITHOUT ROWID""",
    "CREATE INDEX hosts_by_turn ON hosts (crawl, turn)",
    "CREATE INDEX waiting_by_host ON waiting (crawl, host, batch, id)",
    "INSERT INTO hosts (crawl, host, waiting) SELECT crawl, host, count(*) FROM waiting GROUP BY crawl, host",
    """CREATE TRIGGER waiting_added AFTER INSERT ON waiting BEGIN
        INSERT INTO hosts (crawl, host, waiting, turn) VALUES (new.crawl, new.host, 1, (SELECT version FROM store))
        ON CONFLICT (crawl, host) DO UPDATE SET waiting = waiting + 1;
    END""",
    """CREATE TRIGGER waiting_removed AFTER DELETE ON waiting BEGIN
        UPDATE hosts SET waiting = waiting - 1 WHERE crawl = old.crawl AND host = old.host;
        DELETE FROM hosts WHERE crawl = old.crawl AND host = old.host AND waiting < 1;
    END""",
)
"""Added to files of the first version. Their rows have an empty host."""
PER_HOST = 1_000_000
"""Requests of one host that may wait in a file. At a delay of one second, it takes eleven days to fetch as many pages."""
TURNS = 100
"""Hosts of which one batch takes requests."""
_decoder = msgspec.msgpack.Decoder(Request)


class OverflowBatch(list[tuple[int, Request]]):
    """Rows that were taken together, each a row number and a request.

    They stay together until they are settled: if the process that took them dies, the same *batch* is offered again, under the same
    name, so that it is stored once.
    """

    def __init__(self, rows: Sequence[tuple[int, Request]] = (), batch: int = 0) -> None:
        super().__init__(rows)
        self.batch = batch


class OverflowCount(NamedTuple):
    """How many requests wait in a store. *version* grows with every change, so that an older count does not replace a newer one."""

    version: int
    requests: int
    refused: int = 0
    """Requests that were refused so far, because too many of their host were stored."""


class Overflow(Protocol):
    """The interface of an overflow store. Once `put` has returned, its requests must survive a crash."""

    @property
    def name(self) -> str:
        """A unique name of this store."""

    def put(self, crawl: str, requests: Sequence[Request]) -> Sequence[int] | None:
        """Store requests. Returns the positions of those that are refused because too many of their host are stored."""

    def take(self, crawl: str, most: int) -> OverflowBatch:
        """Take the oldest free rows of some hosts, in turn, or a batch that was taken long ago and never settled."""

    def settle(self, done: Sequence[int], back: Sequence[int]) -> None:
        """Delete the rows that are *done*, and free the rows in *back*."""

    def count(self, crawl: str) -> int: ...

    def tally(self, crawl: str) -> OverflowCount: ...

    def close(self) -> None: ...


class SqliteOverflow:
    """A SQLite file, shared by the processes of one machine. It stores at most *per_host* requests of one host."""

    def __init__(self, path: Path | str, *, per_host: int = PER_HOST) -> None:
        if type(per_host) is not int or per_host < 1:
            raise ConfigError(f"per_host must be an integer of at least 1, got {per_host!r}")
        self._path = Path(path)
        self._per_host = per_host
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None
        _open_files.add(self)
        try:
            self._keep_private()
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.executescript(_SCHEMA)
            self._know_hosts()
            self.name = self._identify()
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(f"the overflow file {self._path} cannot be used: {error}") from None

    @property
    def _database(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
            self._opened.execute("PRAGMA synchronous = FULL")
        return self._opened

    def forked(self) -> None:
        """Prepare for use in a forked child of the process that opened the file."""
        self._lock = threading.Lock()  # another thread of the parent may have held it
        if self._opened is not None:
            _inherited.append(self._opened)
            self._opened = None

    def _keep_private(self) -> None:
        """Let only the user read the file, and those that SQLite creates next to it: requests may contain cookies and credentials."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)

    def _identify(self) -> str:
        with self._transaction():
            self._database.execute(
                "INSERT INTO store (id, format) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM store)",
                (uuid.uuid4().hex, FORMAT),
            )
            name, stored = self._database.execute("SELECT id, format FROM store").fetchone()
        if stored > FORMAT:
            raise NewerData(
                f"the overflow file {self._path} has format {stored}, this version of Silkline reads up to {FORMAT}: upgrade Silkline"
            )
        return str(name)

    def _know_hosts(self) -> None:
        """Add the columns and tables of hosts to a file of an earlier version."""
        with self._transaction():
            tables = {name for (name,) in self._database.execute("SELECT name FROM sqlite_master")}
            if "hosts" in tables:
                return
            for statement in _HOSTS:
                self._database.execute(statement)

    def put(self, crawl: str, requests: Sequence[Request]) -> list[int]:
        by_host: dict[str, list[int]] = {}
        for position, request in enumerate(requests):
            by_host.setdefault(host_of(request, parse(request.url)), []).append(position)
        refused: list[int] = []
        with self._transaction():
            self._next_version()
            for host, positions in by_host.items():
                room = max(0, self._per_host - self._waiting(crawl, host))
                refused += positions[room:]
                rows = [(crawl, host, msgspec.msgpack.encode(requests[position])) for position in positions[:room]]
                self._database.executemany("INSERT INTO waiting (crawl, host, request) VALUES (?, ?, ?)", rows)
            if refused:
                self._database.execute(
                    "INSERT INTO refused (crawl, requests) VALUES (?, ?) "
                    "ON CONFLICT (crawl) DO UPDATE SET requests = requests + excluded.requests",
                    (crawl, len(refused)),
                )
        return sorted(refused)

    def _waiting(self, crawl: str, host: str) -> int:
        found = self._database.execute(
            "SELECT waiting FROM hosts WHERE crawl = ? AND host = ?", (crawl, host)
        ).fetchone()
        return int(found[0]) if found else 0

    def take(self, crawl: str, most: int) -> OverflowBatch:
        if not self.count(crawl):
            return OverflowBatch()
        now = int(time.time())
        with self._transaction():
            batch = self._abandoned(crawl, now) or self._gather(crawl, most)
            rows = self._database.execute(
                "UPDATE waiting SET taken = ? WHERE crawl = ? AND batch = ? RETURNING id, request", (now, crawl, batch)
            ).fetchall()
        return OverflowBatch([(row, self._read(row, request)) for row, request in sorted(rows)], batch)

    def _abandoned(self, crawl: str, now: int) -> int | None:
        """Return a batch whose process seems to have died, or whose clock is wrong."""
        found = self._database.execute(
            "SELECT min(batch) FROM waiting WHERE crawl = ? AND batch > 0 AND taken NOT BETWEEN ? AND ?",
            (crawl, now - TAKEN_SECONDS, now + TAKEN_SECONDS),
        ).fetchone()
        return None if found[0] is None else int(found[0])

    def _gather(self, crawl: str, most: int) -> int:
        """Make a batch of the oldest rows of the next hosts, so that a host without room does not block the others."""
        batch = self._next_version()
        hosts = self._database.execute(
            "SELECT host FROM hosts WHERE crawl = ? AND EXISTS (SELECT 1 FROM waiting WHERE "
            "waiting.crawl = hosts.crawl AND waiting.host = hosts.host AND batch IS NULL) ORDER BY turn LIMIT ?",
            (crawl, min(TURNS, most)),
        ).fetchall()
        for (host,) in hosts:
            self._database.execute(
                "UPDATE waiting SET batch = ? WHERE id IN "
                "(SELECT id FROM waiting WHERE crawl = ? AND host = ? AND batch IS NULL ORDER BY id LIMIT ?)",
                (batch, crawl, host, most // len(hosts)),
            )
            self._database.execute("UPDATE hosts SET turn = ? WHERE crawl = ? AND host = ?", (batch, crawl, host))
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

    def tally(self, crawl: str) -> OverflowCount:
        with self._lock, self._errors():
            found = self._database.execute(
                "SELECT version, (SELECT coalesce(sum(waiting), 0) FROM hosts WHERE crawl = ?1), "
                "(SELECT coalesce(sum(requests), 0) FROM refused WHERE crawl = ?1) FROM store",
                (crawl,),
            ).fetchone()
        return OverflowCount(*found)

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()

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
    """A `SqliteOverflow` whose file is created when the first link must wait. Another process may have created it."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._store: SqliteOverflow | None = None
        _open_files.add(self)

    def forked(self) -> None:
        """Prepare for use in a forked child of the process that created this object."""
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._open().name

    def put(self, crawl: str, requests: Sequence[Request]) -> list[int]:
        return self._open().put(crawl, requests)

    def take(self, crawl: str, most: int) -> OverflowBatch:
        return self._open().take(crawl, most) if self._is_there() else OverflowBatch()

    def settle(self, done: Sequence[int], back: Sequence[int]) -> None:
        self._open().settle(done, back)

    def count(self, crawl: str) -> int:
        return self.tally(crawl).requests

    def tally(self, crawl: str) -> OverflowCount:
        return self._open().tally(crawl) if self._is_there() else OverflowCount(0, 0)

    def close(self) -> None:
        if self._store:
            self._store.close()

    def _is_there(self) -> bool:
        return self._store is not None or self._path.exists()

    def _open(self) -> SqliteOverflow:
        """Open the file. A failure during a crawl is raised as `StoreUnavailable`: it may be temporary, such as a full disk."""
        with self._lock:
            if self._store is None:
                try:
                    self._store = SqliteOverflow(self._path)
                except ConfigError as error:
                    raise StoreUnavailable(str(error)) from None
            return self._store


_open_files: WeakSet[SqliteOverflow | LateOverflow] = WeakSet()
_inherited: list[sqlite3.Connection] = []
"""Connections of parent processes, referenced here so that they are not closed."""


def _after_fork() -> None:
    for file in list(_open_files):
        file.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def open_overflow(value: Overflow | Path | str | None) -> Overflow | None:
    """Return a store for what a user passed: a path, or a store."""
    return SqliteOverflow(value) if isinstance(value, str | Path) else value


NONE = "none"
"""Used instead of a path to disable the overflow."""
NAME = "overflow.db"


def overflow_path(chosen: str | None, redis: str | None, file: Path | None = None) -> Path | None:
    """Return the *chosen* path, else one in the directory of the embedded server, else one next to the crawl's *file*."""
    if chosen == NONE:
        return None
    if chosen:
        return Path(chosen).expanduser()
    directory = embedded_in(redis)
    if directory:
        return Path(directory).expanduser() / NAME
    if file and os.access(file.resolve().parent, os.W_OK):
        return file.with_suffix(f".{NAME}")
    return None


def overflow_of(chosen: str | None, redis: str | None, file: Path | None = None) -> Overflow | None:
    """Open the overflow at `overflow_path`. A chosen path is checked at once, a default path when it is first used."""
    place = overflow_path(chosen, redis, file)
    if place is None:
        return None
    return SqliteOverflow(place) if chosen else LateOverflow(place)
