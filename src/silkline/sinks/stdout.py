"""JSON lines on standard output. Durability is up to the reader."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from silkline.errors import SilklineError, SinkUnavailable
from silkline.sinks.destination import Destination
from silkline.sinks.files import write_all
from silkline.sinks.sink import Record, line_of


class _Reserved:
    descriptor: int | None = None


def reserve_stdout() -> None:
    """From now on, items are the only output on stdout; what handlers print goes to stderr."""
    if _Reserved.descriptor is None:
        sys.stdout.flush()
        _Reserved.descriptor = os.dup(sys.stdout.fileno())
        os.dup2(2, sys.stdout.fileno())


class StdoutWriter:
    """Writes whole lines, even if several processes share the output."""

    def __init__(self, *, with_key: bool) -> None:
        self._with_key = with_key
        self._out = sys.stdout.fileno() if _Reserved.descriptor is None else _Reserved.descriptor
        self._is_file = stat.S_ISREG(os.fstat(self._out).st_mode)
        self._lock = _open_anew(self._out)

    def write(self, records: Sequence[Record]) -> None:
        data = b"".join(line_of(record, with_key=self._with_key) for record in records)
        try:
            with self._turn():
                sys.stdout.flush()
                write_all(self._out, data)
                if self._is_file:
                    os.fsync(self._out)
        except BrokenPipeError:
            raise SilklineError("standard output was closed by its reader") from None
        except OSError as error:
            raise SinkUnavailable(f"standard output cannot be written: {error.strerror or error}") from None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._lock is None:
            yield
            return
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _open_anew(out: int) -> int | None:
    """Open the same pipe or file again: an inherited descriptor shares its locks with other processes."""
    with suppress(OSError):
        return os.open(f"/proc/self/fd/{out}", os.O_WRONLY | os.O_CLOEXEC)
    return None


def open_writer(destination: Destination) -> StdoutWriter:
    return StdoutWriter(with_key=destination.with_key)
