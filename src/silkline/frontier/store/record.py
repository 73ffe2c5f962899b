"""What a shard stores of a request: a record in the queue of its host, and a fingerprint in the seen filter.

The record of a plain GET is its path and query (the host is in the key). Any other record is the path, a zero byte, and msgpack
without the fields that have their defaults, shortened by the table in `phrases`. The path is not shortened, because `explain`
searches records for it. The key of a request with a download_slot has the slot, and the record has the host. The first byte is
the format. A format that this version does not know is refused.

A stored record begins with the second at which the shard accepted the request, in three bytes, of which the first is at least 64. Then
a path loses its leading slash, so that a plain GET takes two bytes more than without a time. The number of the second wraps around
after 145 days. Records of earlier versions have no time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from silkline.core.lease import FailedAttempt
from silkline.core.request import MAX_RECORD_BYTES, Request, host_of
from silkline.core.revisit import LastVisit
from silkline.core.url import ParsedUrl, parse
from silkline.errors import NewerData, RequestError, RequestTooLarge
from silkline.frontier.store.phrases import ANY_CODE, ANY_PHRASE, CODES, PHRASES
from silkline.frontier.store.settings import SeenFilter

HTTP_PATH = "\x01"
RICH = b"\x02"
"""The path is a field of the msgpack, and nothing is shortened: records of earlier versions, and those that would get longer."""
SHORT = b"\x03"
TIMED = b"@"
"""The least first byte of a record with a time."""
_FIRST_TIME = 64 << 16
TIMES = 192 << 16
"""The seconds after which the times of records repeat, 145 days; created.lua has the same."""
AHEAD = 86_400
"""Seconds by which a record may be newer than the time with which it is read: two clocks may differ."""
_PATH_HEADER = 10
"""At least the bytes of a record besides its path and the other fields, in both formats."""
_REMEMBERED_BYTES = 400
_MOST_TOGETHER = MAX_RECORD_BYTES // 4
"""Bytes of a meta that is encoded without looking at the cap of the record."""
_PLACE = {"place of the meta": 0}
MAX_FAILURES = 10
MAX_DETAIL = 8_000
"""Characters of the detail of a failed attempt, such as a traceback. Its end is kept."""

EXACT_LEAST = 10**18
EXACT_RANGE = 2**63 - EXACT_LEAST
"""Exact fingerprints are 64-bit integers of 19 digits, so that their text sorts as the numbers do."""

COMPACT_BITS = 44

_DIGITS, _LEAST, _RANGE = 10, 10**9, 8223372037  # as in lib/buckets.lua


class _Rich(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A request that is not a plain GET. Each field has one letter."""

    p: str = ""  # the path, if it is not before the fields
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
    z: str = ""  # the detail of the last failed attempt; that of earlier ones is not kept
    c: dict[str, str] = {}
    a: tuple[str, str] | None = None
    o: float | None = None
    r: tuple[str, ...] = ()
    g: str = ""  # the host of the URL, if the request waits in the queue of a download_slot
    w: list[float] | None = None  # its own retries
    x: int | None = None  # its own max_attempts
    e: float | None = None  # when it expires
    k: dict[str, Any] = {}  # the arguments of its handler
    v: LastVisit | None = None  # its earlier visits
    j: str | bool | None = None  # its session


_decoder = msgspec.msgpack.Decoder(_Rich)
_encoder = msgspec.msgpack.Encoder()


def is_plain(request: Request, address: ParsedUrl) -> bool:
    """Return whether the path is all that must be stored."""
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
        and (request.download_slot is None or request.download_slot == address.host)
        and request.retries is None
        and request.max_attempts is None
        and request.expires is None
        and not request.args
        and request.visit is None
        and request.session is None
    )


def plain_record(address: ParsedUrl) -> str:
    return address.path if address.scheme == "https" else HTTP_PATH + address.path


def plain_without_slash(address: ParsedUrl) -> str:
    """The same as `without_slash` of a plain record."""
    return address.path[1:] if address.scheme == "https" else HTTP_PATH + address.path[1:]


def encode(request: Request, address: ParsedUrl, history: tuple[FailedAttempt, ...] = ()) -> str | bytes:
    """Return the record of a request, at most 64 KiB. If it is too large, the oldest failed attempts are left out."""
    if not history and is_plain(request, address):
        return plain_record(address)
    rich = _Rich(  # a default is left out only if it is the same object: hence the literals "https" and "GET"
        s="https" if address.scheme == "https" else address.scheme,
        u=address.userinfo,
        m="GET" if request.method == "GET" else request.method.upper(),
        h=request.headers,
        b=request.body,
        t=request.meta,
        d=request.depth,
        n=request.handler,
        f=request.dont_filter,
        y=[(failed.time, failed.reason, failed.status) for failed in history[-MAX_FAILURES:]],
        z=history[-1].detail[-MAX_DETAIL:] if history else "",
        c=request.cookies,
        a=request.auth,
        o=request.timeout,
        r=request.redirects,
        g="" if host_of(request, address) == address.host else address.host,
        w=None if request.retries is None else list(request.retries),
        x=request.max_attempts,
        e=request.expires,
        k=request.args,
        v=request.visit,
        j=request.session,
    )
    path = address.path.encode()
    most = MAX_RECORD_BYTES - len(path) - _PATH_HEADER
    fields = _pack(rich)
    while len(fields) > most and (rich.y or rich.z):
        rich.y, rich.z = rich.y[1:], ""
        fields = _pack(rich)
    if len(fields) > most:
        size = len(fields) + MAX_RECORD_BYTES - most
        raise RequestTooLarge(f"the request takes {size} bytes, the cap is {MAX_RECORD_BYTES}")
    short = shorten(fields)
    if len(short) <= len(fields):
        return b"".join((SHORT, path, b"\0", short))
    rich.p = address.path
    return RICH + _pack(rich)


class BatchEncoder:
    """Encodes requests that differ only in path and meta: what they have in common is packed and shortened once."""

    def __init__(self, template: Request, address: ParsedUrl) -> None:
        self._start = b"".join((SHORT, address.path.encode()))
        self._before = self._after = b""
        record = encode(msgspec.structs.replace(template, meta=_PLACE), address)
        start = self._start + b"\0"
        if isinstance(record, bytes) and record.startswith(start):
            before, _, after = restore(record[len(start) :]).partition(_encoder.encode(_PLACE))
            self._before, self._after = b"\0" + shorten(before), shorten(after)

    def encode(self, end: str, meta: dict[str, Any]) -> bytes | None:
        """Return the record of the request with the path that ends with *end*; None if `encode` must make or refuse it.

        The meta is plain data, and is not shortened.
        """
        try:
            packed = _encoder.encode(meta)
        except (TypeError, OverflowError, ValueError, RecursionError):
            return None
        if not meta or not self._before or len(packed) > _MOST_TOGETHER or ANY_CODE.search(packed):
            return None
        return b"".join((self._start, end.encode(), self._before, packed, self._after))


def _pack(rich: _Rich) -> bytes:
    try:
        packed = _encoder.encode(rich)
        if rich.t or rich.k:
            _decoder.decode(packed)  # meta may have keys that can be encoded but not decoded
    except (TypeError, OverflowError, ValueError, RecursionError, msgspec.DecodeError) as error:
        raise RequestError(f"the request cannot be stored: {error}") from None
    return packed


def shorten(fields: bytes) -> bytes:
    """Return *fields* with a code in place of every phrase."""
    return _shorten_again(fields) if len(fields) <= _REMEMBERED_BYTES else _shorten(fields)


def restore(short: bytes) -> bytes:
    """Return what was given to `shorten`. Raises KeyError for a code that this version does not have."""
    return _restore_again(short) if len(short) <= _REMEMBERED_BYTES else _restore(short)


def _shorten(fields: bytes) -> bytes:
    return ANY_PHRASE.sub(lambda found: CODES[found[0]], fields)


def _restore(short: bytes) -> bytes:
    return ANY_CODE.sub(lambda found: PHRASES[found[0]], short)


_shorten_again = lru_cache(maxsize=256)(_shorten)
_restore_again = lru_cache(maxsize=256)(_restore)
"""The links of a page often have the same fields: depth, handler and referer. Only their paths differ."""


def without_slash(record: str | bytes) -> str | bytes:
    """Return a record without the slash with which its path begins, if it is a plain one: the scripts put the time there."""
    if isinstance(record, bytes):
        return record
    return record[1:] if record[0] == "/" else HTTP_PATH + record[2:]


def stored(rest: str | bytes, created: float | None) -> bytes:
    """Return a record as it is stored, given what `without_slash` returns and the time; created.lua does the same."""
    rest = rest.encode("latin-1") if isinstance(rest, str) else rest
    if created is not None:
        return (_FIRST_TIME + int(created) % TIMES).to_bytes(3) + rest
    if rest[:1] in (RICH, SHORT):
        return rest
    return b"\x01/" + rest[1:] if rest[:1] == b"\x01" else b"/" + rest


def decode_stored(
    record: bytes, host: str, priority: int, near: float
) -> tuple[Request, tuple[FailedAttempt, ...], float | None]:
    """Return the request of a stored record, its failed attempts, and when it was accepted, if that is known.

    *near* is a time less than 144 days after that.
    """
    if record < TIMED:
        return *decode(record, host, priority), None
    created, rest = _read_time(record[:3], near), record[3:]
    if rest > b" " or not rest:  # the most frequent ones
        url = f"https://{host}/{rest.decode()}"
        return (Request(url, priority=priority) if priority else Request(url)), (), created
    if rest[:1] == b"\x01":
        return Request(f"http://{host}/{rest[1:].decode()}", priority=priority), (), created
    return *decode(rest, host, priority), created


@lru_cache(maxsize=256)
def _read_time(prefix: bytes, near: float) -> float:
    """Return the last time with this number that is not more than a day after *near*. Many requests of one reply have the same."""
    last = int(near) + AHEAD
    return float(last - (last - int.from_bytes(prefix) + _FIRST_TIME) % TIMES)


def decode(record: bytes, host: str, priority: int) -> tuple[Request, tuple[FailedAttempt, ...]]:
    """Return the request of a record without a time, and its failed attempts."""
    kind = record[:1]
    if kind == b"/":
        return Request(f"https://{host}{record.decode()}", priority=priority), ()
    if kind == b"\x01":
        return Request(f"http://{host}{record[1:].decode()}", priority=priority), ()
    if kind not in (RICH, SHORT):
        raise NewerData(
            f"a request of {host} is stored in format {kind!r}, which this Silkline does not know: upgrade it"
        )
    try:
        rich = _read_fields(record)
    except (msgspec.DecodeError, ValueError, KeyError) as error:
        raise NewerData(f"a request of {host} is stored with fields this Silkline does not know ({error})") from None
    url = ParsedUrl(rich.s, rich.u, rich.g or host, rich.p).url
    request = Request(
        url, rich.m, rich.h, rich.b, rich.t, priority, rich.d, rich.n, rich.f, None, rich.c, rich.a, rich.o, rich.r,
        download_slot=host if rich.g else None, retries=None if rich.w is None else tuple(rich.w), max_attempts=rich.x,
        expires=rich.e, args=rich.k, visit=rich.v, session=rich.j,
    )  # fmt: skip
    failures = [FailedAttempt(*failed) for failed in rich.y]
    if rich.z and failures:
        failures[-1] = failures[-1]._replace(detail=rich.z)
    return request, tuple(failures)


def _read_fields(record: bytes) -> _Rich:
    """Return the fields of a record. A shortened record is refused if it is longer than `encode` makes any, before and after."""
    path, fields = b"", record[1:]
    if record[:1] == SHORT:
        path, _, short = fields.partition(b"\0")
        fields = restore(short) if len(short) <= MAX_RECORD_BYTES else short
        if len(fields) > MAX_RECORD_BYTES:
            raise ValueError(f"more than {MAX_RECORD_BYTES} bytes")
    rich = _decoder.decode(fields)
    rich.p = rich.p or path.decode()
    if not rich.p:
        raise ValueError("no path")
    return rich


def address_of(request: Request) -> ParsedUrl:
    return parse(request.url)


def member(fingerprint: int, kind: str) -> str:
    """Return a 64-bit fingerprint as the scripts of a filter take it. Numbers in Lua have 53 bits, so it is sent as text."""
    if kind == "exact":
        return str(EXACT_LEAST + (fingerprint * EXACT_RANGE >> 64))
    if kind == "compact":
        return str(fingerprint >> (64 - COMPACT_BITS))
    return f"{fingerprint >> 32}:{fingerprint & 0xFFFFFFFF | 1}"


def bucket_finder(buckets: int) -> Callable[[str], str]:
    """Return a function that returns the bucket of an exact fingerprint, as text; "" if the number of *buckets* is unknown (0).

    lib/buckets.lua computes the same.
    """
    if not buckets:
        return lambda _: ""
    span, end = 1 << buckets.bit_length(), 2 * buckets

    def find(member: str) -> str:
        bucket = span + int((int(member[:_DIGITS]) - _LEAST) / _RANGE * span)
        return str(bucket if bucket < end else bucket >> 1)

    return find


def expected_skips(seen: SeenFilter, count: int) -> float:
    """Return how many new URLs the filter has wrongly taken for seen, on average, after *count* new ones."""
    if seen.kind == "exact":
        return count * count / (2.0 * EXACT_RANGE)
    if seen.kind == "compact":
        return count * count / 2.0 ** (COMPACT_BITS + 1)
    return count * seen.error


class Offer(msgspec.Struct, frozen=True):
    """A request that is ready to be sent: its shard, and what is stored of it."""

    position: int
    item: object
    shard: int
    member: str
    host: str
    options: str
    record: str | bytes
    """As `without_slash` returns it."""
