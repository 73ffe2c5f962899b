"""A JSON array in a file, one item per line. At least once: after a crash, an item may be duplicated.

The file is a complete array after each batch: the batch overwrites the closing bracket and ends with a new one. The mark of
the file (see ``files.py``) is the offset behind the last item, so a batch that was cut off is found and repaired.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from silkline.sinks.destination import Destination
from silkline.sinks.files import SharedFile, sync
from silkline.sinks.sink import Record, line_of

_EMPTY, _END = b"[]\n", b"\n]\n"
_EDGE = 4096
"""Bytes at both ends of a file in which its brackets are searched."""


class JsonArrayWriter:
    """Appends each batch as a whole."""

    def __init__(self, destination: Destination) -> None:
        self._with_key = destination.with_key
        self._file = SharedArray(destination)

    def write(self, records: Sequence[Record]) -> None:
        data = b",\n".join(line_of(record, with_key=self._with_key).rstrip(b"\n") for record in records)
        with self._file.turn():
            self._file.append(data)

    def empty(self) -> None:
        with self._file.turn():
            self._file.replace([])

    def close(self) -> None:
        self._file.close()


class SharedArray(SharedFile):
    """A shared file that ends with a bracket. *size* counts the bytes before the line break in front of it."""

    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC

    def __init__(self, destination: Destination) -> None:
        super().__init__(destination.path, scan_items, lines=False)

    def _measure(self) -> int:
        """Return the offset behind the last item, 0 for an empty array; the length of a file that was not closed."""
        raw = os.fstat(self._file).st_size
        if not raw:
            self._close_at(0)
            return 0
        head, tail = os.pread(self._file, _EDGE, 0).lstrip(), os.pread(self._file, _EDGE, max(0, raw - _EDGE)).rstrip()
        if head.startswith(b"[") and tail.endswith(b"]"):
            return self._behind_items(raw, tail[:-1].rstrip())
        mark = self._read_mark()
        if mark is None or mark.inode != self._inode or mark.offset >= raw:
            raise FileExistsError("it exists and is not a JSON array; move it away, or use another name")
        return raw

    def _behind_items(self, raw: int, tail: bytes) -> int:
        offset = max(0, raw - _EDGE) + len(tail)
        return 0 if offset <= _EDGE and os.pread(self._file, offset, 0).strip() == b"[" else offset

    def _close_at(self, offset: int) -> None:
        """Write the end of the array at *offset*."""
        end = _END if offset else _EMPTY
        _write_at(self._file, end, offset)
        os.ftruncate(self._file, offset + len(end))
        sync(self._file)

    def append(self, data: bytes) -> None:
        """Append the items in *data* and return when they are on disk. If it raises, nothing was appended."""
        start = self.size
        data = (b",\n" if start else b"[\n") + data
        try:
            _write_at(self._file, data + _END, start)
            os.ftruncate(self._file, start + len(data) + len(_END))
            sync(self._file)
        except OSError:
            with suppress(OSError):
                self._close_at(start)
            self._forget()
            raise
        self.size = start + len(data)
        self._set_mark()

    def _mend(self, start: int) -> None:
        """Repair the array after *start*. An array that a user has edited stays as it is, if it is complete."""
        with mmap.mmap(self._file, 0, access=mmap.ACCESS_READ) as view:
            units = list(scan_items(view, start, self.size))
            torn = next((begin for begin, _, whole in units if not whole), None)
            if torn is None:
                behind, kept = b"", b""
            elif _is_array(view):
                return
            else:
                behind = view[torn:]
                kept = b"".join(view[begin:end] for begin, end, whole in units if whole and begin > torn)
        if torn is not None:
            self._move_aside(behind)
            kept = kept if torn else kept.replace(b",", b"[", 1)
            _write_at(self._file, kept, torn)
            self.size = torn + len(kept)
        self._close_at(self.size)


def open_writer(destination: Destination) -> JsonArrayWriter:
    return JsonArrayWriter(destination)


def scan_items(view: mmap.mmap, start: int, end: int | None = None) -> Iterator[tuple[int, int, bool]]:
    """Yield the items, each with the comma or bracket and the line break in front of it."""
    end = len(view) if end is None else end
    while start < end:
        line_end = view.find(b"\n", start + 2, end)
        stop = end if line_end < 0 else line_end
        if stop > start + 1 and view[stop - 1 : stop] == b",":
            stop -= 1  # the comma belongs to the next item
        opening = b",\n" if start else b"[\n"
        yield start, stop, view[start : start + 2] == opening and _is_json(view[start + 2 : stop])
        start = stop


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _is_array(view: mmap.mmap) -> bool:
    try:
        msgspec.json.decode(view[:], type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def _write_at(file: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, offset)
        rest, offset = rest[written:], offset + written
