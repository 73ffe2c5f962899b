"""JSON lines in a file, plain or compressed. At least once: after a crash, a line may be duplicated."""

from __future__ import annotations

import gzip
import mmap
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec
import zstandard

from silkline.sinks.destination import Destination
from silkline.sinks.files import FindRecords, SharedFile
from silkline.sinks.sink import Record, line_of

_STEP = 1 << 20


class Packing(NamedTuple):
    """How a batch of lines is encoded, and how complete units are found in a file."""

    pack: Callable[[bytes], bytes]
    scan: FindRecords
    lines: bool = False


class JsonlWriter:
    """Appends each batch as a whole."""

    def __init__(self, destination: Destination, packing: Packing) -> None:
        self._with_key = destination.with_key
        self._pack = packing.pack
        self._file = SharedFile(destination.path, packing.scan, lines=packing.lines)

    def write(self, records: Sequence[Record]) -> None:
        data = self._pack(b"".join(line_of(record, with_key=self._with_key) for record in records))
        with self._file.turn():
            self._file.append(data)

    def empty(self) -> None:
        with self._file.turn():
            self._file.replace([])

    def close(self) -> None:
        self._file.close()


def open_writer(destination: Destination) -> JsonlWriter:
    return JsonlWriter(destination, _PACKINGS[destination.kind])


def scan_lines(view: mmap.mmap, start: int) -> Iterator[tuple[int, int, bool]]:
    while start < len(view):
        end = view.find(b"\n", start) + 1 or len(view)
        yield start, end, is_json(view[start:end])
        start = end


def is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return not line.strip()
    return True


class Unpacker(Protocol):
    """The interface that zlib and zstandard share."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes) -> bytes: ...


def scan_members(
    view: mmap.mmap, start: int, unpacker: Callable[[], Unpacker], faults: tuple[type[Exception], ...]
) -> Iterator[tuple[int, int, bool]]:
    """Yield the compressed members. No member can be found after an incomplete one, so that one extends to the end."""
    while start < len(view):
        end = _end_of_member(view, start, unpacker(), faults)
        yield start, end or len(view), end is not None
        start = end or len(view)


def _end_of_member(view: mmap.mmap, start: int, unpacker: Unpacker, faults: tuple[type[Exception], ...]) -> int | None:
    place = start
    while place < len(view):
        step = view[place : place + _STEP]
        try:
            unpacker.decompress(step)
        except faults:
            return None
        place += len(step)
        if unpacker.eof:
            return place - len(unpacker.unused_data)
    return None


def _scan_gzip(view: mmap.mmap, start: int) -> Iterator[tuple[int, int, bool]]:
    return scan_members(view, start, lambda: zlib.decompressobj(wbits=31), (zlib.error,))


def _scan_zstd(view: mmap.mmap, start: int) -> Iterator[tuple[int, int, bool]]:
    return scan_members(view, start, zstandard.ZstdDecompressor().decompressobj, (zstandard.ZstdError,))


def _pack_zstd(lines: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(lines)


PLAIN = Packing(lambda lines: lines, scan_lines, lines=True)
GZIP = Packing(lambda lines: gzip.compress(lines, 6), _scan_gzip)
ZSTD = Packing(_pack_zstd, _scan_zstd)
_PACKINGS = {"jsonl": PLAIN, "gzip": GZIP, "zstd": ZSTD}
