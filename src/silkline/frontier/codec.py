"""Request ⇄ record: the compact bytes that wait in a queue.

A plain GET is its path and query (the host is in the key). Anything more is msgpack with the defaults left out. The
first byte is the format; a format this version does not know is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silkline.core.errors import NewerData, RequestError, RequestTooLarge
from silkline.core.lease import Trial
from silkline.core.request import MAX_RECORD_BYTES, Request
from silkline.core.url import Address, parse

HTTP_PATH = "\x01"
RICH = b"\x02"
MAX_TRIALS = 10
MAX_DETAIL = 8_000
"""Characters of a traceback or its like; its end tells the most."""


class _Rich(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A request with something to say; one letter a field."""

    p: str
    s: str = "https"
    u: str = ""
    m: str = "GET"
    h: dict[str, str] = {}
    b: bytes = b""
    t: dict[str, Any] = {}
    d: int = 0
    n: str | None = None
    f: bool = False
    y: list[tuple[float, str, int | None]] = []
    z: str = ""  # the detail of the last trial; those of others are not kept
    c: dict[str, str] = {}
    a: tuple[str, str] | None = None
    o: float | None = None
    r: tuple[str, ...] = ()


_decoder = msgspec.msgpack.Decoder(_Rich)
_encoder = msgspec.msgpack.Encoder()


def is_plain(request: Request, address: Address) -> bool:
    """Whether the path says it all."""
    return (
        not address.userinfo
        and request.method == "GET"
        and not request.headers
        and not request.body
        and not request.meta
        and request.depth == 0
        and request.handler is None
        and not request.dont_filter
        and not request.cookies
        and request.auth is None
        and request.timeout is None
        and not request.redirects
    )


def plain_record(address: Address) -> str:
    return address.path if address.scheme == "https" else HTTP_PATH + address.path


def encode(request: Request, address: Address, history: tuple[Trial, ...] = ()) -> str | bytes:
    """The record of a request, at most 64 KiB; history gives way before the request does."""
    if not history and is_plain(request, address):
        return plain_record(address)
    rich = _Rich(  # a default is left out only if it is the very same object: hence "https" and "GET" in so many words
        p=address.path,
        s="https" if address.scheme == "https" else address.scheme,
        u=address.userinfo,
        m="GET" if request.method == "GET" else request.method.upper(),
        h=request.headers,
        b=request.body,
        t=request.meta,
        d=request.depth,
        n=request.handler,
        f=request.dont_filter,
        y=[(trial.time, trial.reason, trial.status) for trial in history[-MAX_TRIALS:]],
        z=history[-1].detail[-MAX_DETAIL:] if history else "",
        c=request.cookies,
        a=request.auth,
        o=request.timeout,
        r=request.redirects,
    )
    record = _pack(rich)
    while len(record) > MAX_RECORD_BYTES and (rich.y or rich.z):
        rich.y, rich.z = rich.y[1:], ""
        record = _pack(rich)
    if len(record) > MAX_RECORD_BYTES:
        raise RequestTooLarge(f"the request takes {len(record)} bytes, the cap is {MAX_RECORD_BYTES}")
    return record


def _pack(rich: _Rich) -> bytes:
    try:
        packed = _encoder.encode(rich)
        if rich.t:
            _decoder.decode(packed)  # meta may hold keys that can be written and not be read again
    except (TypeError, OverflowError, ValueError, RecursionError, msgspec.DecodeError) as error:
        raise RequestError(f"the request cannot be stored: {error}") from None
    return RICH + packed


def decode(record: bytes, host: str, priority: int) -> tuple[Request, tuple[Trial, ...]]:
    """The request of a record, and the trials it has behind it."""
    kind = record[:1]
    if kind == b"/":
        return Request(f"https://{host}{record.decode()}", priority=priority), ()
    if kind == b"\x01":
        return Request(f"http://{host}{record[1:].decode()}", priority=priority), ()
    if kind != RICH:
        raise NewerData(
            f"a request of {host} is stored in format {kind!r}, which this Silkline does not know: upgrade it"
        )
    try:
        rich = _decoder.decode(record[1:])
    except msgspec.DecodeError as error:
        raise NewerData(f"a request of {host} is stored with fields this Silkline does not know ({error})") from None
    url = Address(rich.s, rich.u, host, rich.p).url
    request = Request(
        url, rich.m, rich.h, rich.b, rich.t, priority, rich.d, rich.n, rich.f, None, rich.c, rich.a, rich.o, rich.r,
    )  # fmt: skip
    trials = [Trial(*trial) for trial in rich.y]
    if rich.z and trials:
        trials[-1] = trials[-1]._replace(detail=rich.z)
    return request, tuple(trials)


def address_of(request: Request) -> Address:
    return parse(request.url)
