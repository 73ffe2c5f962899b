"""Decodes content codings in steps of bounded work, whatever the compressed bytes expand to."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import IO, Protocol, cast

import brotli
import zstandard

from silkline.errors import FetchError, ResponseTooLarge

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
PIECE = 256 * 1024
"""The most bytes that one step decodes to; brotli rounds it up, to less than twice as much."""
SLICE = 64 * 1024
"""The most bytes that one step takes."""
MAX_CODINGS = 3
MANY_MEMBERS, SMALL_MEMBER = 1_000, 64
"""A body of more gzip members than this, with fewer bytes each on average, only costs time."""
MAX_ZSTD_WINDOW = 8 * 2**20
"""The window that RFC 9659 permits a web server to ask for."""

_ERRORS = (zlib.error, brotli.error, zstandard.ZstdError)


class Decoder(Protocol):
    """Decodes one coding. `feed` yields after each step of bounded work, also when the step decoded to nothing."""

    @property
    def over(self) -> bool:
        """Whether all that follows is ignored."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...
    def is_finished(self) -> bool:
        """Whether the compressed bytes are complete."""


class Gzip:
    """RFC 1952, also several members in a row. What follows the last one is ignored, as browsers do."""

    def __init__(self, _cap: int) -> None:
        self.over = False
        self._inflate = zlib.decompressobj(31)
        self._members = 1
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data and not self.over:
            if self._inflate.eof:
                if not data.startswith(b"\x1f"):
                    self.over = True
                    return
                self._next_member()
            piece = self._inflate.decompress(data, PIECE)
            self._size += len(piece)
            yield piece
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MANY_MEMBERS and self._size < self._members * SMALL_MEMBER:
            raise FetchError(f"the body has {self._members} gzip members for {self._size} bytes", "decode")
        self._inflate = zlib.decompressobj(31)

    def is_finished(self) -> bool:
        return self._inflate.eof


class Deflate:
    """RFC 1950, and RFC 1951 from the servers that misread the standard."""

    def __init__(self, _cap: int) -> None:
        self._start = b""
        self._inflate: zlib._Decompress | None = None

    @property
    def over(self) -> bool:
        return self.is_finished()

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            data = self._start + data
            if len(data) < 2:
                self._start = data
                return
            has_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(15 if has_header else -15)
        while data and not self._inflate.eof:
            yield self._inflate.decompress(data, PIECE)
            data = self._inflate.unconsumed_tail

    def is_finished(self) -> bool:
        return self._inflate is not None and self._inflate.eof


class Brotli:
    """RFC 7932. Data after the end is an error: the library does not report where in a piece the end was."""

    over = False

    def __init__(self, _cap: int) -> None:
        self._stream = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._stream.is_finished():
            raise brotli.error("there is data after its end")
        while not self._stream.is_finished():
            yield self._stream.process(data, output_buffer_limit=PIECE)
            data = b""
            if self._stream.can_accept_more_data():
                return

    def is_finished(self) -> bool:
        return bool(self._stream.is_finished())


class Zstd:
    """RFC 8878, also several frames in a row. One step may decode to the whole cap: zstd offers no smaller steps."""

    over = False  # what follows a frame is another frame or an error

    def __init__(self, cap: int) -> None:
        self._pieces = _Pieces(cap)
        self._stream = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW).stream_writer(
            cast("IO[bytes]", self._pieces), write_size=PIECE, closefd=False
        )

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            self._stream.write(data)
        except ResponseTooLarge:
            yield from self._pieces.take()
            raise
        yield from self._pieces.take() or [b""]

    def is_finished(self) -> bool:
        # The stream does not report it. But between two frames, and nowhere else, it accepts no zeros.
        try:
            self._stream.write(bytes(8))
        except zstandard.ZstdError as error:
            return "frame descriptor" in str(error)
        except ResponseTooLarge:
            pass
        return False


class _Pieces:
    """What the zstd stream writes to."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._size = 0
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > self._cap:
            raise too_large(self._cap)
        return len(data)

    def take(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        return pieces


_DECODERS: dict[str, Callable[[int], Decoder]] = {
    "gzip": Gzip,
    "x-gzip": Gzip,
    "deflate": Deflate,
    "br": Brotli,
    "zstd": Zstd,
}


class Decoding:
    """Decodes one body, through all the codings that its Content-Encoding names.

    What comes out of each coding is counted against *cap*, also where it goes into another one. Names that are no codings
    (some servers send "utf-8" here) are ignored, as browsers do.
    """

    def __init__(self, codings: str, cap: int) -> None:
        known = [name for word in codings.split(",") if (name := word.strip().lower()) in _DECODERS]
        if len(known) > MAX_CODINGS:
            raise FetchError(f"the body has {len(known)} content codings; the limit is {MAX_CODINGS}", "decode")
        self._codings = codings
        self._cap = cap
        # The last coding in the header was applied last, so it is decoded first.
        self._chain = [_DECODERS[name](cap) for name in reversed(known)]
        self._sizes = [0] * len(known)

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Yield what the next bytes decode to, after every step of bounded work, even if it is empty."""
        slices = [data] if len(data) <= SLICE else [data[at : at + SLICE] for at in range(0, len(data), SLICE)]
        try:
            for piece in slices:
                yield from self._through(0, bytes(piece))
        except _ERRORS as error:
            raise FetchError(f"the body cannot be decoded as {self._codings!r}: {error}", "decode") from None

    def _through(self, stage: int, data: bytes) -> Iterator[bytes]:
        inner = self._chain[stage + 1 :]
        if not inner:
            yield from self._chain[stage].feed(data) if self._chain else (data,)
            return
        if any(decoder.over for decoder in inner):
            return  # nothing more can come out
        for piece in self._chain[stage].feed(data):
            self._sizes[stage] += len(piece)
            if self._sizes[stage] > self._cap:
                raise too_large(self._cap)
            yield from self._through(stage + 1, piece) if piece else (piece,)
            if any(decoder.over for decoder in inner):
                return

    def finish(self) -> None:
        """Raise if the compressed bytes are incomplete."""
        needed: list[Decoder] = []
        for decoder in reversed(self._chain):  # what is outside of a coding that is over does not matter
            needed.append(decoder)
            if decoder.over:
                break
        if not all(decoder.is_finished() for decoder in needed):
            raise FetchError(f"the body, encoded as {self._codings!r}, is incomplete", "decode")


def too_large(cap: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"the body has more than {cap} bytes, the limit")
