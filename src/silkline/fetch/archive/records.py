"""Records of WARC files, read from memory-mapped files in bounded memory, also if the file is damaged or hostile.

After damage, reading continues at the next record that can be found. What was skipped is reported with its offset.
"""

from __future__ import annotations

import mmap
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from silkline.errors import ConfigError

MOST_HEAD = 64 * 1024
"""Bytes of the head of a record, and of the head of an HTTP message."""
MOST_BEHIND = 64
"""Bytes that may follow the block of a record; it should be four."""
_PROBE = 512
"""Compressed bytes that are enough to see whether a record begins."""
_STEPS = (8 * 1024, 256 * 1024)
"""Compressed bytes that are read at a time: at first few, because most records are small, and then twice as many each time."""

FREE, MOST_RATIO = 256 * 2**20, 200
"""Decompressed bytes from which their ratio to the compressed ones is checked, and the greatest one. In archives it is below 20."""
MOST_DAMAGED, MOST_PROBES = 100_000, 1_000_000
"""Damaged parts of a file, and places that look like the start of a record and are none: in random data, one in 16 MiB does."""

_GZIP = b"\x1f\x8b\x08"
_PLAIN = b"\nWARC/1."
_VERSION = b"WARC/"
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/(\d(?:\.\d)?) (\d{3})(?: |$)")


class BadRecord(Exception):
    """A record that cannot be read; the message says why."""


class WarcRecord(NamedTuple):
    """One record of a file: where it is, its fields (with names in lower case), and its block."""

    offset: int
    end: int
    fields: dict[str, str]
    block: bytes

    @property
    def kind(self) -> str:
        return self.fields.get("warc-type", "")


class SkippedBytes(NamedTuple):
    """A part of a file that cannot be read: where it begins and ends, and why."""

    offset: int
    end: int
    reason: str


class HttpMessage(NamedTuple):
    """The HTTP response in the block of a record."""

    version: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    is_cut: bool = False
    """Whether the rest of the body was not stored."""


def read_records(view: mmap.mmap, start: int, end: int, most: int) -> Iterator[WarcRecord | SkippedBytes]:
    """Yield the records between two offsets. A record whose block has more than *most* bytes is skipped, without reading it all.

    Raises `ConfigError` for a file that takes much more time than an archive of its size.
    """
    begin, damaged = start, 0
    effort, search = ReadingEffort(), RecordSearch(view, end)
    while start < end:
        try:
            record = read_record(view, start, end, most, effort)
        except BadRecord as error:
            behind = search.next(start + 1)
            yield SkippedBytes(start, behind, str(error))
            damaged += 1
            if damaged > MOST_DAMAGED:
                raise ConfigError(f"it has more than {MOST_DAMAGED:,} damaged parts") from None
            start = behind
        else:
            yield record
            start = record.end
        effort.check(start - begin)


class ReadingEffort:
    """How many bytes were decompressed."""

    def __init__(self) -> None:
        self.unpacked = 0

    def check(self, read: int) -> None:
        """Raise `ConfigError` if they are many more than the *read* bytes of the file can be in an archive."""
        if self.unpacked > FREE and self.unpacked > MOST_RATIO * read:
            raise ConfigError(f"it has more than {MOST_RATIO} times its size when it is decompressed")


def read_record(view: mmap.mmap, start: int, end: int, most: int, effort: ReadingEffort | None = None) -> WarcRecord:
    """Return the record at *start*. Raises `BadRecord` if there is none that can be read."""
    if view[start : start + 3] != _GZIP:
        return _plain_record(view, start, end, most)
    member = _Member(view, start, end)
    try:
        return _packed_record(member, start, most)
    finally:
        if effort is not None:
            effort.unpacked += len(member.data)


def _packed_record(member: _Member, start: int, most: int) -> WarcRecord:
    member.unpack(MOST_HEAD)
    fields, head, length = _read_head(bytes(member.data))
    if length > most:
        raise BadRecord(f"the record has {length:,} bytes; the limit is {most:,}")
    member.unpack(head + length + MOST_BEHIND)
    data = bytes(member.data)
    if data[head + length :].lstrip().startswith(_VERSION):
        raise ConfigError(
            "it is compressed as a whole, so its records cannot be read one by one; compress each record: "
            "warcio recompress IN.warc.gz OUT.warc.gz"
        )
    if len(data) >= head + length + MOST_BEHIND:
        raise BadRecord("the record has more bytes than it declares")
    if member.end is None or len(data) < head + length:
        raise BadRecord("the record is incomplete")
    return WarcRecord(start, member.end, fields, data[head : head + length])


class _Member:
    """A gzip member, decompressed as far as it is needed."""

    def __init__(self, view: mmap.mmap, start: int, end: int) -> None:
        self._view = view
        self._place = start
        self._most = end
        self._unpacker = zlib.decompressobj(wbits=31)
        self._step, self._most_step = _STEPS
        self._rest = b""
        self.data = bytearray()
        self.end: int | None = None
        """The offset behind it, once it is known."""

    def unpack(self, size: int) -> None:
        """Decompress until *data* has this size, or to the end of the member or of the file."""
        while self.end is None and len(self.data) < size:
            if not self._rest:
                self._rest = self._view[self._place : min(self._place + self._step, self._most)]
                self._place += len(self._rest)
                self._step = min(2 * self._step, self._most_step)
                if not self._rest:
                    return
            try:
                self.data += self._unpacker.decompress(self._rest, size - len(self.data))
            except zlib.error as error:
                reason = str(error).rpartition(": ")[2]
                raise BadRecord(f"the compressed data is damaged ({reason})") from None
            self._rest = self._unpacker.unconsumed_tail
            if self._unpacker.eof:
                self.end = self._place - len(self._unpacker.unused_data)


def _plain_record(view: mmap.mmap, start: int, end: int, most: int) -> WarcRecord:
    fields, head, length = _read_head(view[start : min(start + MOST_HEAD, end)])
    behind = start + head + length
    if length > most:
        raise BadRecord(f"the record has {length:,} bytes; the limit is {most:,}")
    if behind > end:
        raise BadRecord("the record is incomplete")
    block = view[start + head : behind]
    while behind < end and view[behind : behind + 1] in (b"\r", b"\n"):
        behind += 1
    return WarcRecord(start, behind, fields, block)


def _read_head(data: bytes) -> tuple[dict[str, str], int, int]:
    """Return the fields of a record, the offset of its block and the length that it declares."""
    found = _HEAD_END.search(data, 0, MOST_HEAD)
    if not data.startswith(_VERSION) or found is None:
        raise BadRecord("no WARC record begins here")
    fields: dict[str, str] = {}
    for line in data[: found.start()].decode("utf-8", "replace").splitlines()[1:]:
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    length = fields.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) < 19):
        raise BadRecord(f"the record has the length {length[:40]!r}")
    return fields, found.end(), int(length)


class RecordSearch:
    """Finds the next record behind damage. It searches each part of the file once, however often it is asked."""

    def __init__(self, view: mmap.mmap, end: int) -> None:
        self._view = view
        self._end = end
        self._packed = self._plain = -1
        self._probes = 0

    def next(self, start: int) -> int:
        """Return the offset of the next record from *start* on, or the end."""
        while start < self._end:
            if self._packed < start:
                self._packed = self._find(_GZIP, start)
            if self._plain <= start:
                self._plain = self._find(_PLAIN, start) + 1
            if min(self._packed, self._plain) >= self._end:
                return self._end
            if self._plain < self._packed:
                return self._plain
            if _is_packed_record(self._view[self._packed : self._packed + _PROBE]):
                return self._packed
            self._probes += 1
            if self._probes > MOST_PROBES:
                raise ConfigError(f"more than {MOST_PROBES:,} places in it look like records, and are none")
            start = self._packed + 1
        return self._end

    def _find(self, what: bytes, start: int) -> int:
        found = self._view.find(what, start, self._end)
        return found if found >= 0 else self._end


def _is_packed_record(data: bytes) -> bool:
    try:
        return zlib.decompressobj(wbits=31).decompress(data, len(_VERSION)) == _VERSION
    except zlib.error:
        return False


# ── the HTTP message in a record ──


def read_http(record: WarcRecord) -> HttpMessage:
    """Return the HTTP response of a record. Raises `BadRecord` if it has none."""
    block = record.block
    if record.kind == "resource":  # a page without its HTTP head
        return HttpMessage("1.1", 200, [("Content-Type", record.fields.get("content-type", ""))], block)
    found = _HEAD_END.search(block, 0, MOST_HEAD)
    head, body = (block[: found.start()], block[found.end() :]) if found else (block[:MOST_HEAD], b"")
    first, *lines = head.splitlines() or [b""]
    status = _STATUS.match(first)
    if status is None:
        raise BadRecord("the record has no HTTP response")
    headers: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if colon and name.strip():
            headers.append((name.strip(), value.strip()))
    return HttpMessage(status[1].decode(), int(status[2]), headers, body, "warc-truncated" in record.fields)


_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]{0,1000})?\r?\n")


def without_chunks(body: bytes) -> bytes:
    """Return a chunked body without its chunks. Many archives store such bodies without them: then it is returned as it is."""
    pieces: list[bytes] = []
    place = 0
    while chunk := _CHUNK.match(body, place):
        size = int(chunk[1], 16)
        if size == 0:
            return b"".join(pieces)
        piece = body[chunk.end() : chunk.end() + size]
        pieces.append(piece)
        place = chunk.end() + size
        if len(piece) < size:
            return b"".join(pieces)  # the record is truncated
        place += 2 if body[place : place + 2] == b"\r\n" else 1
    return b"".join(pieces) if pieces and place >= len(body) else body
