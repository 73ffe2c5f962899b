"""Reading a response: sizes are counted while it arrives, and nothing is unpacked beyond the cap."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from silkline.core.errors import FetchError, ResponseTooLarge
from silkline.worker.fetch.decode import Unpacking
from silkline.worker.fetch.fetcher import Headers, Limits
from silkline.worker.fetch.watch import Watch

MANY_PIECES = 4096
CRUMB = 64
"""A body of more than so many pieces of less than so many bytes, on average, is meant to keep us busy."""

_DATA = (bytes, memoryview)


def check_headers(headers: Headers, limits: Limits) -> None:
    """Refuse headers that are too large together."""
    size = sum([len(name) + len(value) + 4 for name, value in headers.pairs])
    if size > limits.max_headers:
        raise ResponseTooLarge(f"the headers take {size} bytes, the cap is {limits.max_headers}")


def check_length(length: int | None, limits: Limits) -> None:
    """Refuse a body at once that says itself that it is too large."""
    if length is not None and length > limits.max_body:
        raise ResponseTooLarge(f"the body has {length} bytes, the cap is {limits.max_body}")


async def read_body(
    pieces: AsyncIterator[Any], coding: str | None, limits: Limits, watch: Watch, cut: int | None = None
) -> bytes:
    """The body, unpacked: the whole, or its first *cut* bytes.

    *pieces* are bytes or memoryviews as they were sent; all else (trailers) is skipped.
    """
    body = _Body(limits.max_body if cut is None else cut)
    try:
        await _read_pieces(pieces, coding, limits, watch, body)
    except ResponseTooLarge:
        if cut is None:
            raise
    return body.whole()


async def _read_pieces(
    pieces: AsyncIterator[Any], coding: str | None, limits: Limits, watch: Watch, body: _Body
) -> None:
    take = body.add if coding is None else (unpacking := Unpacking(coding, body.add)).feed
    count = got = 0
    watch.reading_body()
    async for piece in pieces:
        if isinstance(piece, _DATA):
            count += 1
            got += len(piece)
            watch.got = got
            take(piece)
            if got > limits.max_body or count > MANY_PIECES:
                _check_sent(got, count, limits)
    if coding is not None and got:
        unpacking.finish()


def _check_sent(size: int, count: int, limits: Limits) -> None:
    if size > limits.max_body:
        raise ResponseTooLarge(f"the body has more than {limits.max_body} bytes, the cap")
    if size < count * CRUMB:
        raise FetchError(f"the body comes in crumbs: {count} pieces for {size} bytes", "protocol")


class _Body:
    """What has been unpacked so far."""

    __slots__ = ("_cap", "_pieces", "_size")

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._size = 0
        self._pieces: list[bytes | memoryview] = []

    def add(self, piece: bytes | memoryview) -> None:
        self._size += len(piece)
        if self._size > self._cap:
            self._pieces.append(piece[: self._cap - self._size])
            raise ResponseTooLarge(f"the body has more than {self._cap} bytes, the cap")
        self._pieces.append(piece)

    def whole(self) -> bytes:
        pieces = self._pieces
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
