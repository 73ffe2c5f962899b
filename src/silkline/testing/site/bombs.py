"""Decompression bombs: a gibibyte of zeros in at most a megabyte, for every content coding. Made, not compressed."""

from __future__ import annotations

import base64
import functools
import gzip
import zlib
from collections.abc import Callable

GIBIBYTE = 1 << 30
MEBIBYTE = 1 << 20

_BROTLI = (  # the stream of 809 bytes that unpacks to a gibibyte of zeros, itself deflated
    b"c-lMv|9?G$3d5s~4n^<(|NQ@-zk$U;My%o8U;F?6|1(Zt=s3)DVekLv|Nq-F2r(2!FzovN|Ih#b><&x{eB2J-|IG)gV(?%%"
    b"lF0bt-v7`4|I0IQHdyE|-2Gku@Be>h1xA5()&<r7&qFQQz)&)3$*3hm(Gq(A@n^2y"
)


@functools.cache
def bomb(coding: str) -> bytes:
    """A gibibyte of zeros in *coding*: gzip, deflate, raw-deflate, br, zstd; or gzip-gzip, packed twice."""
    return _BOMBS[coding]()


def _deflated(wbits: int) -> bytes:
    """One block that ends on a byte and refers to nothing before it may be repeated for ever."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    first = packer.compress(bytes(MEBIBYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(MEBIBYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + again * (GIBIBYTE // MEBIBYTE - 1) + packer.flush()


def _zstd() -> bytes:
    """A frame of run-length blocks: four bytes for 128 KiB each."""
    size = 128 * 1024
    block = ((size << 3) | (1 << 1)).to_bytes(3, "little") + b"\0"
    last = ((size << 3) | (1 << 1) | 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * (GIBIBYTE // size - 1) + last


def zstd_with_window(log: int) -> bytes:
    """A tiny frame that asks the reader for a window of 2**log bytes."""
    return b"\x28\xb5\x2f\xfd\x00" + bytes([(log - 10) << 3]) + ((5 << 3) | 1).to_bytes(3, "little") + b"hello"


_BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: _deflated(31),
    "deflate": lambda: _deflated(15),
    "raw-deflate": lambda: _deflated(-15),
    "br": lambda: zlib.decompress(base64.b85decode(_BROTLI)),
    "zstd": _zstd,
    "gzip-gzip": lambda: gzip.compress(_deflated(31)),
}
