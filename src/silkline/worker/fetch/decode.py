"""Unpacking content codings in pieces of bounded size, whatever the packed bytes promise to become."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import IO, Protocol, cast

import brotli
import zstandard

from silkline.core.errors import FetchError

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
PIECE = 256 * 1024
"""The most that is unpacked at once; brotli rounds it up, to less than twice as much."""
MAX_CODINGS = 3
MAX_ZSTD_WINDOW = 8 * 2**20
"""What RFC 9659 lets a web server ask of its readers."""

Emit = Callable[[bytes], object]
"""Takes one unpacked piece; raises when it is too much."""


class Unpacker(Protocol):
    """Takes packed bytes and emits unpacked ones, piece by piece."""

    def feed(self, data: bytes) -> None: ...
    def is_finished(self) -> bool:
        """Whether the packed bytes have come to their end."""


class Gzip:
    """RFC 1952, also several members in a row. What follows the last one is ignored, as browsers do."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._inflate = zlib.decompressobj(31)

    def feed(self, data: bytes) -> None:
        while data:
            if self._inflate.eof:
                if not data.startswith(b"\x1f"):
                    return
                self._inflate = zlib.decompressobj(31)
            if piece := self._inflate.decompress(data, PIECE):
                self._emit(piece)
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail

    def is_finished(self) -> bool:
        return self._inflate.eof


class Deflate:
    """RFC 1950, and RFC 1951 from the servers that misread the standard."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._start = b""
        self._inflate: zlib._Decompress | None = None

    def feed(self, data: bytes) -> None:
        if self._inflate is None:
            data = self._start + data
            if len(data) < 2:
                self._start = data
                return
            has_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(15 if has_header else -15)
        while data and not self._inflate.eof:
            if piece := self._inflate.decompress(data, PIECE):
                self._emit(piece)
            data = self._inflate.unconsumed_tail

    def is_finished(self) -> bool:
        return self._inflate is not None and self._inflate.eof


class Brotli:
    """RFC 7932."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._stream = brotli.Decompressor()

    def feed(self, data: bytes) -> None:
        while not self._stream.is_finished():
            if piece := self._stream.process(data, output_buffer_limit=PIECE):
                self._emit(piece)
            data = b""
            if self._stream.can_accept_more_data():
                return

    def is_finished(self) -> bool:
        return bool(self._stream.is_finished())


class Zstd:
    """RFC 8878, also several frames in a row."""

    def __init__(self, emit: Emit) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW).stream_writer(
            cast("IO[bytes]", _Writer(emit)), write_size=PIECE, closefd=False
        )

    def feed(self, data: bytes) -> None:
        self._stream.write(data)

    def is_finished(self) -> bool:
        # The stream does not tell. But between two frames, and nowhere else, it takes no zeros.
        try:
            self._stream.write(bytes(8))
        except zstandard.ZstdError as error:
            return "frame descriptor" in str(error)
        return False


class _Writer:
    """What the zstd stream writes to."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit

    def write(self, data: bytes) -> int:
        self._emit(data)
        return len(data)


_UNPACKERS: dict[str, Callable[[Emit], Unpacker]] = {
    "gzip": Gzip,
    "x-gzip": Gzip,
    "deflate": Deflate,
    "br": Brotli,
    "zstd": Zstd,
}


class Unpacking:
    """One body being unpacked, through all the codings its Content-Encoding names.

    Names that are no codings (some servers say "utf-8" here) are left alone, as browsers do.
    """

    def __init__(self, codings: str, emit: Emit) -> None:
        known = [name for word in codings.split(",") if (name := word.strip().lower()) in _UNPACKERS]
        if len(known) > MAX_CODINGS:
            raise FetchError(f"the body is packed {len(known)} times, at most {MAX_CODINGS} are unpacked", "decode")
        self._codings = codings
        self._chain: list[Unpacker] = []
        for name in known:  # the last one named was applied last: it comes off first and feeds the one before it
            self._chain.insert(0, _UNPACKERS[name](self._chain[0].feed if self._chain else emit))
        self._plain = None if self._chain else emit

    def feed(self, data: bytes | memoryview) -> None:
        """Unpack the next bytes."""
        if self._plain is not None:
            self._plain(bytes(data))
            return
        try:
            self._chain[0].feed(bytes(data))
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise FetchError(f"the body is not what its coding {self._codings!r} says: {error}", "decode") from None

    def finish(self) -> None:
        """No more bytes come; raises when the packed ones end in the middle."""
        if not all(unpacker.is_finished() for unpacker in self._chain):
            raise FetchError(f"the body, packed with {self._codings!r}, ends in the middle", "decode")
