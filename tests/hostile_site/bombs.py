"""Decompression bombs: a gibibyte of zeros in at most a megabyte, for every content coding. Made, not compressed."""

from __future__ import annotations

import base64
import functools
import gzip
import zlib
from collections.abc import Callable

import brotli

GIBIBYTE = 1 << 30
MEBIBYTE = 1 << 20

_BROTLI = (  # the stream of 809 bytes that unpacks to a gibibyte of zeros, itself deflated
    b"c-lMv|9?G$3d5s~4n^<(|NQ@-zk$U;My%o8U;F?6|1(Zt=s3)DVekLv|Nq-F2r(2!FzovN|Ih#b><&x{eB2J-|IG)gV(?%%"
    b"lF0bt-v7`4|I0IQHdyE|-2Gku@Be>h1xA5()&<r7&qFQQz)&)3$*3hm(Gq(A@n^2y"
)

_GZIP_IN_BROTLI = (  # a gzip member followed by a gibibyte of zeros, in 855 bytes of brotli, deflated
    b"c-lMv|9?FLi&DOMyolmyHI1`rlV|&e-^yR6k`}z{hrxurd;fo@F&Y>(zZ1^aeXT0$cK-fBkPa1wM;jPQ-v9sk|37~Ni-U|<!@Ixs"
    b"|NsAIoWRg=nCZga|Ih#bw`UMyD2!m(_5J^!|Nq$?m=yT99lrmY4^+kA!Ehvz@x{IWpa1`tXW(qG&|$dyyZ+z*|I7-E0`05|s{fxK"
    b"wPe(iA!o^d21W*;9j+_}0McH-_W"
)


@functools.cache
def bomb(coding: str) -> bytes:
    """A gibibyte of zeros in *coding*: gzip, deflate, raw-deflate, br, zstd; or gzip-gzip, packed twice.

    The others spend their work between two codings, and decode to next to nothing: gzip-zeros-br, gzip-members-br,
    gzip-members-gzip, zstd-frames-br.
    """
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


def _many(member: bytes) -> bytes:
    """Repeat a compressed nothing until it has 24 MiB."""
    return member * (24 * MEBIBYTE // len(member))


_EMPTY_ZSTD = b"\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"

_BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: _deflated(31),
    "deflate": lambda: _deflated(15),
    "raw-deflate": lambda: _deflated(-15),
    "br": lambda: zlib.decompress(base64.b85decode(_BROTLI)),
    "zstd": _zstd,
    "gzip-zeros-br": lambda: zlib.decompress(base64.b85decode(_GZIP_IN_BROTLI)),
    "gzip-members-br": lambda: brotli.compress(_many(gzip.compress(b"")), quality=4),
    "gzip-members-gzip": lambda: gzip.compress(_many(gzip.compress(b""))),
    "zstd-frames-br": lambda: brotli.compress(_many(_EMPTY_ZSTD), quality=4),
    "gzip-gzip": lambda: gzip.compress(_deflated(31)),
}
