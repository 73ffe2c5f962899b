"""A Parquet file. Items wait in a spool beside it, durable, and are merged into it at the end: one row per key."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import pyarrow as pa

from silkline.core.errors import ConfigError, SinkUnavailable
from silkline.sinks.destination import Destination
from silkline.sinks.files import SharedFile, inode_of, replacing
from silkline.sinks.item import Record
from silkline.sinks.jsonl import scan_lines
from silkline.sinks.parquet_merge import check_table, merge


class ParquetWriter:
    """Writes to the spool. `finish` merges, and so does `close` if no other process has the sink open.

    If a merge is interrupted, the spool is still there, and the next one begins again.
    """

    def __init__(self, destination: Destination) -> None:
        self._path = destination.path
        check_table(self._path)
        self._spool = SharedFile(self._path.with_name(f"{self._path.name}.spool"), scan_lines, lines=True)
        self._writers = self._path.with_name(f".{self._path.name}.writers")
        self._presence = self._enter()

    def write(self, records: Sequence[Record]) -> None:
        data = b"".join(msgspec.json.encode((record.key, record.url, record.item)) + b"\n" for record in records)
        with self._spool.turn():
            self._spool.append(data)

    def finish(self) -> None:
        """Other processes that want to write meanwhile are told to try again."""
        with self._arrow_faults(), self._spool.turn():
            with self._spool.mapped() as view:
                if view is not None:
                    with replacing(self._path) as file:
                        merge(self._path, view, file)
            self._spool.remove()

    @contextmanager
    def _arrow_faults(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, msgspec.MsgspecError) as error:
            raise SinkUnavailable(f"{self._path} cannot be written: {error}") from None

    def close(self) -> None:
        try:
            if self._leave():
                self.finish()
        finally:
            self._spool.close()

    # ── who is here ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _enter(self) -> int:
        """Share a lock with the other writers; the system takes it from those that are killed."""
        while True:
            try:
                presence = os.open(self._writers, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise ConfigError(f"{self._path} cannot be written: {error.strerror}") from None
            fcntl.flock(presence, fcntl.LOCK_SH)
            if inode_of(self._writers) == os.fstat(presence).st_ino:
                return presence
            os.close(presence)

    def _leave(self) -> bool:
        """Whether we were the last. Each lets go first and looks then, so of two that leave at once one finds nobody."""
        os.close(self._presence)
        presence = os.open(self._writers, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(presence, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._writers.unlink(missing_ok=True)
        except BlockingIOError:
            return False
        finally:
            os.close(presence)
        return True


def open_writer(destination: Destination) -> ParquetWriter:
    return ParquetWriter(destination)
