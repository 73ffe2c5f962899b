"""What the frontier keeps of a robots.txt: the bytes, small."""

from __future__ import annotations

import zlib
from typing import Literal, NamedTuple

from silkline.core.robots import MAX_BYTES, cut

RobotsState = Literal["known", "yours", "fetching", "unknown"]

_PLAIN, _DEFLATED = b"t", b"z"


class RobotsFile(NamedTuple):
    """The robots.txt of an origin as the fleet has it."""

    state: RobotsState
    """known; yours: fetch it and keep it; fetching: somebody else does; unknown to one who only looks"""
    text: bytes | None
    """The file, empty where there is none. When it is known, None says that it could not be fetched; otherwise what
    stands here is an older copy, if there is one."""
    lasts: float
    """Seconds for which the answer holds."""


def pack(text: bytes | None) -> bytes:
    """The bytes to store; deflated if that is shorter."""
    if text is None:
        return b""
    text = cut(text)
    deflated = zlib.compress(text)
    return _DEFLATED + deflated if len(deflated) < len(text) else _PLAIN + text


def unpack(packed: bytes) -> bytes | None:
    if not packed:
        return None
    kind, rest = packed[:1], packed[1:]
    return zlib.decompressobj().decompress(rest, MAX_BYTES) if kind == _DEFLATED else rest
