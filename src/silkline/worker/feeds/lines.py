"""Read lines of a file of any size: compressed or not, one bounded piece at a time, whatever it contains."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Protocol, cast

import xxhash
import zstandard

from silkline.errors import ConfigError
from silkline.frontier.user_keys.inbox import MOST_BYTES
from silkline.worker.feeds.feed_entry import MOST_STORED

CHUNK = 256 * 1024
"""The most bytes that are read at once."""
ZSTD_SLICE = 512
"""Compressed bytes per step of zstd, which may expand them by more than 30,000: its steps cannot be bounded in another way."""
MAX_ZSTD_WINDOW = 128 * 2**20
"""What the zstd program reads without an option."""
MOST_BARREN = 8 * 2**30
"""Bytes without an entry of usable length after which a file is given up: it is an endless line, or expands to one."""
MOST_SKIPPED = 10_000
"""Lines that are skipped at once."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
BOM = b"\xef\xbb\xbf"


class ByteStream(Protocol):
    """Bytes, in the order of the file. `read1` returns up to *size* bytes as soon as there are some, and none at the end."""

    def read1(self, size: int, /) -> bytes: ...


class Peekable(ByteStream, Protocol):
    """A buffered file, such as stdin."""

    def peek(self, size: int = 0, /) -> bytes: ...


class LongLine(bytes):
    """The beginning of a line that is too long to be an entry."""

    size: int
    """Bytes of the whole line."""


class DamagedFile(ConfigError):
    """A file whose rest cannot be read: it is incomplete, has other bytes in it, or no end of a line."""


class EndlessLine(Exception):
    """A line that is longer than any file of entries."""


def decompressed(raw: Peekable) -> ByteStream:
    """Return the contents of a file, which may be compressed with gzip or zstd: its first bytes say so."""
    start = raw.peek(4)[:4]
    if start[:2] == GZIP:
        return gzip.GzipFile(fileobj=cast("BinaryIO", raw))
    return ZstdStream(raw) if start == ZSTD else raw


_ERRORS = (OSError, EOFError, zlib.error, zstandard.ZstdError, EndlessLine)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Turn errors of reading into errors that name the file."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DamagedFile(f"{name} is a damaged gzip file: {error}") from None
    except zstandard.ZstdError as error:
        raise DamagedFile(f"{name} is a damaged zstd file: {error}") from None
    except EndlessLine as error:
        raise DamagedFile(f"{name} is no file of entries: {error}") from None
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror or error}") from None


class ZstdStream:
    """The contents of a zstd file, also of several frames in a row."""

    def __init__(self, raw: ByteStream) -> None:
        self._raw = raw
        self._frames = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW)
        self._frame = self._frames.decompressobj()
        self._between = False
        """Whether a frame has ended and no other has begun."""
        self._packed = memoryview(b"")
        self._piece = memoryview(b"")

    def read1(self, size: int, /) -> bytes:
        while not self._piece:
            if not self._packed:
                self._packed = memoryview(self._raw.read1(CHUNK))
                if not self._packed:
                    if not self._between:
                        raise zstandard.ZstdError("it ends within a frame")
                    return b""
            self._piece = memoryview(self._read_piece())
        piece, self._piece = bytes(self._piece[:size]), self._piece[size:]
        return piece

    def _read_piece(self) -> bytes:
        """Return what the next bytes expand to, in steps, as long as that is little."""
        pieces, size = [], 0
        while self._packed and size < CHUNK:
            if self._between:
                self._frame, self._between = self._frames.decompressobj(), False
            try:
                pieces.append(self._frame.decompress(self._packed[:ZSTD_SLICE]))
            except zstandard.ZstdError:
                if pieces:
                    break  # the next call raises it
                raise
            self._packed = self._packed[ZSTD_SLICE:]
            size += len(pieces[-1])
            if self._frame.eof:
                self._between = True
                self._packed = memoryview(self._frame.unused_data + bytes(self._packed))
        return b"".join(pieces)


class LineReader:
    """The lines of a stream, without their ends. A line that is too long is a `LongLine`. `number` and `digest` are where it is."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._at = 0
        self._rest: list[bytes] = []
        """The pieces of the last line, which is not complete."""
        self._rest_size = 0
        self._ended = False
        self._barren = 0
        self._error: Exception | None = None
        self._hash = xxhash.xxh3_64()
        self.number = 0
        """Lines that were taken."""

    @property
    def ended(self) -> bool:
        """Whether all lines were taken."""
        return self._ended and self._at == len(self._lines)

    @property
    def has_more(self) -> bool:
        """Whether there is another line: neither the end nor an error is next."""
        while self._at == len(self._lines):
            if self._error or self._ended:
                return False
            with suppress(*_ERRORS):
                self._fill()
        return True

    @property
    def digest(self) -> str:
        """A hash of all lines that were taken."""
        return self._hash.hexdigest()

    def skip(self, number: int) -> None:
        """Take lines up to line *number*, or to the end."""
        while self.number < number and self.take(min(MOST_SKIPPED, number - self.number)):
            pass

    def peek(self, ahead: int = 0) -> bytes | None:
        """Return the next line, or a later one, without taking it; None after the last."""
        while len(self._lines) - self._at <= ahead:
            if not self._fill():
                return None
        return self._lines[self._at + ahead]

    def take(self, most: int) -> list[bytes]:
        """Return the next lines; none at the end."""
        while len(self._lines) - self._at < most and self._fill():
            pass
        lines = self._lines[self._at : self._at + most]
        self._at += len(lines)
        self.number += len(lines)
        if lines:
            self._hash.update(b"\n".join(lines) + b"\n")
        return lines

    def _fill(self) -> bool:
        """Read some more; return False at the end. An error of the file is raised after the lines before it were taken."""
        if not self._error and not self._ended:
            try:
                return self._read_more()
            except _ERRORS as error:
                self._error = error
        if self._error and self._at == len(self._lines):
            raise self._error
        return False

    def _read_more(self) -> bool:
        data = self._stream.read1(CHUNK)
        del self._lines[: self._at]
        self._at = 0
        if not data:
            self._ended = True
            if not self._rest_size:
                return False
            self._lines.append(self._end_line(b""))
            return True
        first, *others = data.split(b"\n")
        if not others:
            self._keep(first)
            return True
        self._lines.append(self._end_line(first) if self._rest_size else first)
        self._keep(others.pop())
        self._lines += others
        return True

    def _keep(self, piece: bytes) -> None:
        """Keep a piece of a line that is not complete, or only count it if the line is too long."""
        if self._rest_size <= MOST_BYTES:
            if piece:
                self._rest.append(piece)
            self._barren = 0
        else:
            self._barren += len(piece)
            if self._barren > MOST_BARREN:
                line = self.number + len(self._lines) - self._at + 1
                raise EndlessLine(f"line {line:,} has more than {MOST_BARREN >> 30} GiB")
        self._rest_size += len(piece)

    def _end_line(self, piece: bytes) -> bytes:
        self._keep(piece)
        size, line = self._rest_size, b"".join(self._rest)
        self._rest, self._rest_size = [], 0
        if size <= MOST_BYTES:
            return line
        long = LongLine(line[:MOST_STORED])
        long.size = size
        return long
