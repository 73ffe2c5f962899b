"""Files to which several processes append. Each batch is appended as a whole, and partial writes are repaired.

While processes write to ``books.jsonl``, the file ``.books.jsonl.silkline`` next to it is the lock. It contains the mark:
the offset up to which the file is complete and on disk. The mark moves only after an fsync. If the file is longer than its
mark, because a writer was killed or the power failed, the next writer scans the rest: complete units (lines, compressed
members) stay, including those that a user added; partial data is moved to ``books.jsonl.torn``.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import mmap
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from silkline.errors import ConfigError, SinkUnavailable

LOCK_SECONDS = 10.0
"""Seconds to wait for the lock before the write fails and is retried later."""
log = logging.getLogger("silkline.sinks")

FindRecords = Callable[[mmap.mmap, int], Iterator[tuple[int, int, bool]]]
"""Yields start, end and completeness of each unit of a file, from an offset on."""

_MARK_BYTES = 42
_NOT_ALLOWED = (PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError, FileNotFoundError)
_OUR_TURN = "not in a turn"


def make_directory(path: Path, *, quietly: bool = False) -> None:
    """Create a directory with its parents, and log that: it may be a typo. Raises `ConfigError` if one of them is a file."""
    if path.is_dir():
        return
    for parent in (path, *path.parents):
        if parent.exists() and not parent.is_dir():
            raise ConfigError(f"{path} cannot be written: {parent} is a file, not a directory")
    path.mkdir(parents=True, exist_ok=True)
    if not quietly:
        log.warning("the directory %s did not exist and was created", path)


class DurableMark(NamedTuple):
    """The number of bytes of the file with this inode that are complete and on disk."""

    inode: int
    offset: int


@contextmanager
def unavailable(path: Path) -> Iterator[None]:
    """Raise `SinkUnavailable` for errors of the file system."""
    try:
        yield
    except OSError as error:
        raise SinkUnavailable(f"{path} cannot be written: {error.strerror or error}") from None


class SharedFile:
    """A file that several processes append to. Every access happens in a `turn`, which one process holds at a time."""

    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC

    def __init__(self, path: Path, scan: FindRecords, *, lines: bool) -> None:
        self.path = path
        self._scan = scan
        self._lines = lines
        self._side = path.with_name(f".{path.name}.silkline")
        self._lock = -1
        self._file = -1
        self._inode = 0
        self.size = 0
        self.is_new_to_us = True
        """Whether the file was replaced since the last turn of this process, or this is its first turn."""
        self._try_once()

    def _try_once(self) -> None:
        try:
            make_directory(self.path.parent)
            if self.path.exists() and not self.path.is_file():
                raise ConfigError(f"{self.path} is not a regular file; use - for standard output")
            with self._locked():
                self._begin()
        except OSError as error:
            is_wrong = isinstance(error, _NOT_ALLOWED) or error.errno in (errno.EROFS, errno.ENAMETOOLONG)
            kind = ConfigError if is_wrong else SinkUnavailable
            raise kind(f"{self.path} cannot be written: {error.strerror or error}") from None

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock, with the file open and repaired."""
        with unavailable(self.path), self._locked():
            self._begin()
            yield
            self.is_new_to_us = False

    @contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + LOCK_SECONDS
        while not self._try_lock():
            if time.monotonic() > deadline:
                raise SinkUnavailable(f"{self.path} cannot be written: another process has held its lock for too long")
            time.sleep(random.uniform(0.0005, 0.003))
        try:
            yield
        finally:
            if self._lock >= 0:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _try_lock(self) -> bool:
        """Lock the lock file that exists now: the last writer deletes it, so an open descriptor may be stale."""
        if self._lock < 0:
            self._lock = os.open(self._side, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if inode_of(self._side) == os.fstat(self._lock).st_ino:
            return True
        os.close(self._lock)
        self._lock = -1
        return False

    def _begin(self) -> None:
        if self._file >= 0 and inode_of(self.path) != self._inode:
            self._forget()
        if self._file < 0:
            self._open()
        self.size = self._measure()
        mark = self._read_mark()
        if mark is None:
            self._set_mark(durable=True)
        elif mark.inode != self._inode or mark.offset > self.size:
            self._set_mark()
        elif mark.offset < self.size:
            self._mend(mark.offset)
            self._set_mark()

    def _measure(self) -> int:
        """Return the offset at which the next batch is written."""
        return os.fstat(self._file).st_size

    def _open(self) -> None:
        is_born = not self.path.exists()
        self._file = os.open(self.path, self.flags, 0o666)
        self._inode = os.fstat(self._file).st_ino
        self.is_new_to_us = True
        if is_born:
            sync_directory(self.path.parent)

    def _forget(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    # ── the mark ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_mark(self) -> DurableMark | None:
        """Return the mark; None if there is none, and then the file was not written since it was complete."""
        words = os.pread(self._lock, _MARK_BYTES, 0).split()
        try:
            return DurableMark(*map(int, words)) if words else None
        except (TypeError, ValueError):
            return DurableMark(self._inode, 0)  # unreadable: scan the whole file

    def _set_mark(self, *, durable: bool = False) -> None:
        """Write the mark in one call; it is smaller than a sector. It needs no fsync: an old mark only means a longer scan."""
        os.pwrite(self._lock, f"{self._inode:020d} {self.size:020d}\n".encode(), 0)
        if durable:
            sync(self._lock)
            sync_directory(self.path.parent)

    # ── what is done in a turn ───────────────────────────────────────────────────────────────────────────────────────

    def append(self, data: bytes) -> None:
        """Append *data* and return when it is on disk. If it raises, nothing was appended."""
        assert self._lock >= 0, _OUR_TURN
        start = self.size
        if self._lines and start and os.pread(self._file, 1, start - 1) != b"\n":
            data = b"\n" + data  # the file may end with a line that a user wrote
        try:
            write_all(self._file, data)
            sync(self._file)
        except OSError:
            self._take_back(start)
            raise
        self.size = start + len(data)
        self._set_mark()

    def _take_back(self, start: int) -> None:
        """Truncate a partial write. If this fails too, the next turn repairs the file."""
        with suppress(OSError):
            os.ftruncate(self._file, start)
        self._forget()

    def replace(self, pieces: Iterable[bytes]) -> None:
        """Replace the file atomically; other writers notice it in their next turn."""
        assert self._lock >= 0, _OUR_TURN
        with replacing(self.path) as file:
            for piece in pieces:
                write_all(file, piece)
        self._forget()
        self._open()
        self.size = self._measure()
        self._set_mark()

    def remove(self) -> None:
        assert self._lock >= 0, _OUR_TURN
        self.path.unlink(missing_ok=True)
        sync_directory(self.path.parent)
        self._forget()
        self._side.unlink(missing_ok=True)

    @contextmanager
    def mapped(self) -> Iterator[mmap.mmap | None]:
        """Map the file into memory; None if it is empty."""
        assert self._file >= 0, _OUR_TURN
        if not self.size:
            yield None
            return
        with mmap.mmap(self._file, self.size, access=mmap.ACCESS_READ) as view:
            yield view

    # ── repair ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _mend(self, start: int) -> None:
        """Repair the file after *start*; everything before it is complete."""
        with self.mapped() as view:
            if view is None or (self._lines and start and view[start - 1 : start] != b"\n"):
                return  # the mark belongs to an earlier file
            units = list(self._scan(view, start))
            torn = _torn(units)
            if torn is None or (not self._lines and _torn(self._scan(view, 0)) is None):
                return
            behind = view[torn:]
            kept = b"".join(view[begin:end] for begin, end, whole in units if whole and begin > torn)
        self._move_aside(behind)
        os.ftruncate(self._file, torn)
        write_all(self._file, kept)
        sync(self._file)
        self.size = torn + len(kept)

    def _move_aside(self, data: bytes) -> None:
        aside = self.path.with_name(f"{self.path.name}.torn")
        append_durably(aside, data)
        log.warning("sink: found a partial write in %s; moved %d bytes to %s", self.path, len(data), aside.name)

    def close(self) -> None:
        """Close the file and delete the lock file; other writers create a new one."""
        with suppress(OSError, SinkUnavailable), self._locked():
            if self.path.exists():
                self._begin()
            self._side.unlink(missing_ok=True)
        self._forget()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _torn(units: Iterable[tuple[int, int, bool]]) -> int | None:
    """Return the start of the first incomplete unit."""
    return next((begin for begin, _, whole in units if not whole), None)


# ── durable writes ───────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def replacing(path: Path) -> Iterator[int]:
    """Yield a new file that replaces *path* atomically at the end; on an error, *path* is unchanged."""
    draft = path.with_name(f".{path.name}.new")
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        if path.exists():
            os.fchmod(file, path.stat().st_mode & 0o7777)
        yield file
        sync(file)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
    sync_directory(path.parent)


def append_durably(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        write_all(file, data)
        sync(file)
    finally:
        os.close(file)
    sync_directory(path.parent)


def write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def sync(file: int) -> None:
    """Flush to the disk, not only to its cache."""
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone does not flush the cache of the disk
    if full is None:
        os.fsync(file)
    else:
        fcntl.fcntl(file, full)


def sync_directory(path: Path) -> None:
    """Sync a directory: a new name is durable only after that."""
    directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def inode_of(path: Path) -> int:
    """Return the inode of *path*; 0 if it does not exist."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
