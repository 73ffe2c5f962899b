"""FileFeed: a file of entries on this machine, read once, by one process of the fleet at a time."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import stat
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol

import msgspec
import xxhash

from silkline.core.entry import BadEntry
from silkline.errors import ConfigError, LockLost, StoreUnavailable
from silkline.frontier.frontier import Frontier
from silkline.frontier.locks.locks import Hold
from silkline.worker.feeds.entry_file import EntryReader, Position, format_of, open_lines, open_parquet
from silkline.worker.feeds.feed_entry import FeedEntry
from silkline.worker.feeds.lines import DamagedFile, naming

log = logging.getLogger("silkline.worker")

TTL = 15.0
"""Seconds after which another process continues with the file of a lost one."""


class FilePosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a file was read, as it is stored with the crawl."""

    line: int = 0
    digest: str = ""
    """What the file has up to there; see `Position`."""
    stored: int = 0
    """Entries up to this line are stored, too: a part of what was read next."""
    ended: bool = False
    damage: str = ""
    """The error at which it ended, and for which there is a dead letter."""
    machine: str = ""
    """The machine of the last reader."""
    at: float = 0.0
    """The unix time at which it was read to its end."""


class OpenSource(Protocol):
    """What is read: a file or a query. All methods block."""

    ended: bool
    changed: bool
    """Whether it has changed before the position at which it was opened; then it is read from its beginning."""
    unit: str
    """What is counted: lines or rows."""

    @property
    def position(self) -> Position: ...

    def read(self, most: int) -> list[FeedEntry]: ...

    def close(self) -> None: ...


class Batch:
    """Entries that were read together and are being stored."""

    def __init__(self, start: Position, end: Position, lines: Sequence[int]) -> None:
        self.start = start
        self.end = end
        self.last = max(end.line, lines[-1])
        self.left = set(lines)


class FileFeed:
    """A file on this machine. Its position is stored with the crawl when the entries before it are stored."""

    endless = False
    kept = math.inf

    def __init__(self, path: str, frontier: Frontier, *, ttl: float = TTL) -> None:
        self.name = path
        self._internal = frontier.internal
        self._lock = frontier.lock(f"feed:{xxhash.xxh3_64_hexdigest(os.fsencode(path))}", ttl)
        self._hold: Hold | None = None
        self._file: OpenSource | None = None
        self._batches: deque[Batch] = deque()
        self._reading, self._storing = asyncio.Lock(), asyncio.Lock()
        self._known: FilePosition | None = None
        """The stored position when this process first read it."""
        self._is_taking = False
        """Whether entries are being read, which are not in `_batches` yet."""
        self._over = False
        self._damage = ""

    async def take(self, n: int) -> list[FeedEntry]:
        if self._over or not await self._is_reader():
            return []
        file = self._file
        assert file
        start, self._is_taking = file.position, True
        try:
            async with self._reading:
                entries = await asyncio.to_thread(file.read, n)
        except DamagedFile as error:
            entries = self._end_damaged(file, str(error), start)
        except ConfigError:
            await self._drop_file()
            raise
        finally:
            self._is_taking = False
        if file is not self._file:
            return []  # entries before these could not be stored: all are read again
        if entries:
            self._batches.append(Batch(start, file.position, _lines_of(entries)))
        elif file.ended and not self._batches:
            await self._store_position()
        return entries

    async def keep(self, entries: Sequence[FeedEntry]) -> None:
        """There is nothing to do: the lock is renewed as long as this process lives."""

    async def done(self, entries: Sequence[FeedEntry]) -> None:
        lines = _lines_of(entries)
        batch = next((batch for batch in self._batches if lines and lines[0] <= batch.last), None)
        if batch is None:
            return  # it is read again
        batch.left.difference_update(lines)
        await self._store_position()

    async def refuse(self, entries: Sequence[FeedEntry]) -> None:
        await self.done(entries)

    async def release(self, entries: Sequence[FeedEntry]) -> None:
        """There is nothing to do: the position is before them."""

    async def abandon(self) -> None:
        await self._drop_file()

    async def ended(self) -> bool:
        if self._over or self._known is None:
            return self._over
        return self._hold is None and not self._is_here() and (await self._read_position()).ended

    async def close(self) -> None:
        await self._drop_file()
        hold, self._hold = self._hold, None
        if hold:
            with suppress(LockLost, StoreUnavailable):
                await hold.release()

    def where(self, entry: FeedEntry) -> str:
        return f"line={entry.place}"

    # ── reading ──

    async def _is_reader(self) -> bool:
        """Return whether this process reads the file, after becoming its reader if there is none."""
        if self._hold and not self._hold.lost and self._file:
            return True
        stored = await self._read_position()
        if self._known is None:
            self._known = stored
            self._over = self._was_just_read(stored)
            if self._over:
                return False
        elif stored.ended and stored != self._known:
            self._over = True  # another process has read it to its end since this one has started
            return False
        if not self._is_here() and stored.machine not in ("", _machine()):
            return False  # a worker on the machine that has it reads it
        if self._hold is None or self._hold.lost:
            self._check()
            await self._drop_file()
            self._hold = await self._lock.acquire(wait=0)
        return self._hold is not None and await self._begin(await self._read_position())

    async def _begin(self, stored: FilePosition) -> bool:
        """Open the file at the position that is stored; return whether there is more in it."""
        self._file = file = await asyncio.to_thread(self._open, stored)
        if file.changed:
            log.warning(
                "the feed %s has changed before line %s, up to which it was read: it is read again from its beginning, and the "
                "crawl recognizes the URLs that it has seen",
                self.name,
                f"{stored.line:,}",
            )
        self._damage = "" if file.changed else stored.damage
        if file.ended and stored.ended and not file.changed:
            await self._end()
            return False
        if file.position.line:
            log.info(
                "the feed %s is continued after %s %s", self.name, file.unit, f"{max(stored.line, stored.stored):,}"
            )
        return True

    def _end_damaged(self, file: OpenSource, damage: str, start: Position) -> list[FeedEntry]:
        """End the file where it is damaged. Returns an entry that becomes a dead letter, unless there is one of an earlier run."""
        file.ended = True
        if damage == self._damage:
            return []
        self._damage = damage
        error = BadEntry(f"the rest of the file cannot be read: {damage}. Correct the file and run the crawl again")
        return [FeedEntry(error, b"", start.line + 1)]

    async def _drop_file(self) -> None:
        """Forget what was read and is not stored: it is read again."""
        file, self._file = self._file, None
        self._batches.clear()
        if file:
            async with self._reading:
                file.close()

    # ── the position ──

    async def _read_position(self) -> FilePosition:
        return _decode(await self._internal.feed_position(self.name))

    async def _store_position(self) -> None:
        """Store how far the entries are stored without a gap. The last position is stored last."""
        async with self._storing:
            file, hold = self._file, self._hold
            if not file or not hold:
                return
            before = len(self._batches)
            end = file.position
            while self._batches and not self._batches[0].left:
                end = self._batches.popleft().end
            position = FilePosition(*end, machine=_machine())
            if self._batches:
                first = self._batches[0]
                position = FilePosition(*first.start, stored=min(first.left) - 1, machine=_machine())
            elif file.ended and not self._is_taking:
                position = FilePosition(
                    *file.position, ended=True, damage=self._damage, machine=_machine(), at=time.time()
                )
            elif not before:
                return
            await self._internal.feed_position(self.name, hold.token, msgspec.json.encode(position))
            if position.ended:
                await self._end()

    async def _end(self) -> None:
        self._over = True
        await self.close()

    # ── what it reads ──

    def _is_here(self) -> bool:
        return os.path.exists(self.name)  # noqa: PTH110 - a path as text

    def _check(self) -> None:
        """Raise `ConfigError` if it cannot be read here. This is before the lock is taken: another process may have the file."""
        check_file(self.name)

    def _open(self, stored: FilePosition) -> OpenSource:
        return OpenFile(self.name, stored)

    def _was_just_read(self, _stored: FilePosition) -> bool:
        return False  # the next lines show whether there are more


class OpenFile:
    """The file, open at a position. All methods block."""

    def __init__(self, path: str, stored: FilePosition) -> None:
        self._path = path
        self._raw: BufferedReader | None = None
        self._reader = self._open()
        self.unit = self._reader.unit
        with suppress(DamagedFile), naming(path):
            self._reader.skip(stored.line)
        self.changed = self._reader.position != Position(stored.line, stored.digest) and stored.line > 0
        self._skipped = 0 if self.changed else stored.stored
        if self.changed:
            self._reader = self._open()
        self.ended = self._reader.ended

    @property
    def position(self) -> Position:
        return self._reader.position

    def read(self, most: int) -> list[FeedEntry]:
        with naming(self._path):
            entries = self._reader.read(most)
        self.ended = self._reader.ended
        if self._skipped:
            entries = [entry for entry in entries if _line_of(entry) > self._skipped]
        return entries

    def close(self) -> None:
        if self._raw:
            self._raw.close()

    def _open(self) -> EntryReader:
        self.close()
        check_file(self._path)
        kind = format_of(self._path)
        with naming(self._path):
            if kind == "parquet":
                return open_parquet(self._path)
            self._raw = Path(self._path).open("rb")  # noqa: SIM115 - `close` closes it
            return open_lines(self._raw, self._path, kind)


def check_file(path: str) -> None:
    """Raise `ConfigError` if a path is no file that can be read."""
    with naming(f"the feed {path}"):
        mode = os.stat(path).st_mode  # noqa: PTH116 - a path as text
        if not stat.S_ISREG(mode):
            raise ConfigError(f"the feed {path} is not a regular file; a crawl must be able to read it again")


def check_entries(path: str) -> None:
    """Raise `ConfigError` if a file cannot be a feed, for example because it has wrong columns."""
    OpenFile(path, FilePosition()).close()


def _decode(data: bytes) -> FilePosition:
    return msgspec.json.decode(data, type=FilePosition) if data else FilePosition()


def _line_of(entry: FeedEntry) -> int:
    line: Any = entry.place
    return int(line)


def _lines_of(entries: Sequence[FeedEntry]) -> list[int]:
    lines: list[Any] = [entry.place for entry in entries]
    return lines


def _machine() -> str:
    return socket.gethostname()[:100]
