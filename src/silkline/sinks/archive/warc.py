"""WARC files (ISO 28500:2017, WARC 1.1), plain or with a gzip member per record.

Each exchange is a ``response`` and a ``request`` record. A payload that the file already has becomes a ``revisit`` record. At least once:
after a crash, an exchange may be stored twice.
"""

from __future__ import annotations

import hashlib
import mmap
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.metadata import version
from typing import NamedTuple
from uuid import uuid4

from silkline.core.url import parse
from silkline.sinks.archive.exchange import Exchange, Pairs
from silkline.sinks.destination import Destination
from silkline.sinks.files import SharedFile
from silkline.sinks.jsonl import scan_members
from silkline.sinks.sink import Record

SMALL = 512
"""A payload of fewer bytes is stored again rather than as a revisit, which would not be smaller."""
MOST_REMEMBERED = 50_000
"""Payloads of a file that each process remembers."""
LEVEL, CODED_LEVEL = 6, 1
"""gzip levels: of bodies, and of those that are compressed already."""
PUBLIC = frozenset(
    {
        "accept", "accept-encoding", "accept-language", "cache-control", "content-type", "dnt", "if-modified-since", "if-none-match",
        "pragma", "range", "referer", "upgrade-insecure-requests", "user-agent",
    }
)  # fmt: skip
"""Headers of requests that are stored. Others may be secret: they need ``?credentials=true``."""
IDENTICAL = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
_BODILESS = frozenset({204, 304})
_MOVED = "X-Crawler-"
"""The prefix of headers that were true on the wire and are not true of the stored body, as other crawlers write it."""
_MOST_HEAD = 64 * 1024


class StoredPayload(NamedTuple):
    """The record that has a payload."""

    url: str
    date: str


class WarcWriter:
    """Appends the records of each batch as a whole."""

    def __init__(self, destination: Destination) -> None:
        is_packed = destination.kind == "warc_gz"
        self._pack = _gzip if is_packed else _plain
        self._records = ExchangeRecords(credentials=destination.flag("credentials"))
        self._stored: OrderedDict[str, StoredPayload] = OrderedDict()
        self._file = SharedFile(destination.path, scan_gzip if is_packed else scan_plain, lines=False)

    def write(self, records: Sequence[Record]) -> None:
        """Store nothing: items belong in another sink."""

    def archive(self, exchanges: Sequence[Exchange]) -> None:
        before = len(self._stored)
        data, found = self._packed(exchanges)
        with self._file.turn():
            if self._file.is_new_to_us and before:  # another file has the name now: it lacks the payloads
                self._stored.clear()
                data, found = self._packed(exchanges)
            if not self._file.size:
                data = self._pack(warcinfo(), LEVEL) + data
            self._file.append(data)
        self._stored.update(found)
        while len(self._stored) > MOST_REMEMBERED:
            self._stored.popitem(last=False)

    def _packed(self, exchanges: Sequence[Exchange]) -> tuple[bytes, dict[str, StoredPayload]]:
        """Return the records of a batch, and the payloads that they have."""
        found: dict[str, StoredPayload] = {}
        packed = []
        for exchange in exchanges:
            level = CODED_LEVEL if _is_coded(exchange) else LEVEL
            packed += [self._pack(one, level) for one in self._records.of(exchange, self._stored, found)]
        return b"".join(packed), found

    def empty(self) -> None:
        with self._file.turn():
            self._file.replace([])
        self._stored.clear()

    def close(self) -> None:
        self._file.close()


def open_writer(destination: Destination) -> WarcWriter:
    return WarcWriter(destination)


# ── records ──


class ExchangeRecords:
    """Makes the records of exchanges. With *credentials*, requests have all their headers, and their bodies."""

    def __init__(self, *, credentials: bool) -> None:
        self._credentials = credentials

    def of(
        self, exchange: Exchange, stored: Mapping[str, StoredPayload], found: dict[str, StoredPayload]
    ) -> Iterator[bytes]:
        """Yield the response, or the revisit of a payload in *stored* or *found*, and the request. New payloads go into *found*."""
        address = parse(exchange.url)
        url = f"{address.scheme}://{address.host}{address.path}"
        date = datetime.fromtimestamp(exchange.began, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        response_id = _new_id()
        common = [("WARC-Date", date), ("WARC-Target-URI", url)]
        if exchange.address:
            common.append(("WARC-IP-Address", exchange.address))
        if exchange.http_version == "HTTP/2":
            common.append(("WARC-Protocol", "h2"))
        yield self._response(exchange, response_id, common, StoredPayload(url, date), stored, found)
        yield self._request(exchange, response_id, common, address.host, address.path)

    def _response(
        self,
        exchange: Exchange,
        record_id: str,
        common: list[tuple[str, str]],
        place: StoredPayload,
        stored: Mapping[str, StoredPayload],
        found: dict[str, StoredPayload],
    ) -> bytes:
        head = response_head(exchange)
        fields = [("WARC-Record-ID", record_id), *common, ("Content-Type", "application/http;msgtype=response")]
        if exchange.status == 304:
            return record("revisit", [*fields, ("WARC-Profile", NOT_MODIFIED)], head)
        digest = _digest(exchange.body)
        fields.append(("WARC-Payload-Digest", digest))
        if exchange.is_cut:
            return record("response", [*fields, ("WARC-Truncated", "length")], head, exchange.body)
        if len(exchange.body) < SMALL:
            return record("response", fields, head, exchange.body)
        first = stored.get(digest) or found.setdefault(digest, place)
        if first == place:
            return record("response", fields, head, exchange.body)
        refers = [("WARC-Refers-To-Target-URI", first.url), ("WARC-Refers-To-Date", first.date)]
        return record("revisit", [*fields, ("WARC-Profile", IDENTICAL), *refers], head)

    def _request(
        self, exchange: Exchange, response_id: str, common: list[tuple[str, str]], host: str, path: str
    ) -> bytes:
        sent = [(name, value) for name, value in exchange.sent if self._credentials or name.lower() in PUBLIC]
        body = exchange.request_body if self._credentials else b""
        if body:
            sent.append(("Content-Length", str(len(body))))
        fields = [("WARC-Record-ID", _new_id()), *common, ("WARC-Concurrent-To", response_id)]
        if exchange.request_body and not body:
            fields.append(("WARC-Truncated", "unspecified"))
        head = _http_head(f"{exchange.method} {path} HTTP/1.1", [("Host", host), *sent])
        return record("request", [*fields, ("Content-Type", "application/http;msgtype=request")], head, body)


def record(kind: str, fields: Pairs, head: bytes, body: bytes = b"") -> bytes:
    """Return a record whose block is *head* and *body*."""
    block = head + body
    lines = [f"{name}: {value}" for name, value in fields]
    lines += [f"WARC-Block-Digest: {_digest(block)}", f"Content-Length: {len(block)}", "", ""]
    return b"".join([f"WARC/1.1\r\nWARC-Type: {kind}\r\n".encode(), "\r\n".join(lines).encode(), block, b"\r\n\r\n"])


def warcinfo() -> bytes:
    """Return the first record of a file, which describes it."""
    text = (
        f"software: Silkline/{version('silkline')}\r\n"
        "format: WARC File Format 1.1\r\n"
        "conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
    )
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = [("WARC-Record-ID", _new_id()), ("WARC-Date", now), ("Content-Type", "application/warc-fields")]
    return record("warcinfo", fields, text.encode())


def response_head(exchange: Exchange) -> bytes:
    """Return status line and headers. Those that are not true of the stored body get another name, as other crawlers do it."""
    has_body = exchange.method != "HEAD" and exchange.status not in _BODILESS
    pairs: list[tuple[str, str]] = []
    is_moved = False
    for name, value in exchange.headers:
        is_wrong = has_body and _is_wrong(name.lower(), value, exchange)
        is_moved |= is_wrong
        pairs.append((f"{_MOVED}{name}" if is_wrong else name, value))
    if is_moved:
        pairs = [
            *(pair for pair in pairs if pair[0].lower() != "content-length"),
            ("Content-Length", str(len(exchange.body))),
        ]
    return _http_head(f"HTTP/1.1 {exchange.status} {_phrase(exchange.status)}", pairs)


def _is_wrong(name: str, value: str, exchange: Exchange) -> bool:
    if name == "content-length":
        return value.strip() != str(len(exchange.body))
    return name == "transfer-encoding" or (name == "content-encoding" and exchange.is_decoded)


def _http_head(first: str, pairs: Iterable[tuple[str, str]]) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in pairs)]
    safe = [line.replace("\r", " ").replace("\n", " ") for line in lines]  # a fetcher of the user may return anything
    return "\r\n".join([*safe, "", ""]).encode("latin-1", "replace")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _is_coded(exchange: Exchange) -> bool:
    return not exchange.is_decoded and any(name.lower() == "content-encoding" for name, _ in exchange.headers)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _new_id() -> str:
    return f"<urn:uuid:{uuid4()}>"


# ── files ──


def _gzip(data: bytes, level: int) -> bytes:
    packer = zlib.compressobj(level, wbits=31)
    return packer.compress(data) + packer.flush()


def _plain(data: bytes, _level: int) -> bytes:
    return data


def scan_gzip(view: mmap.mmap, start: int) -> Iterator[tuple[int, int, bool]]:
    return scan_members(view, start, lambda: zlib.decompressobj(wbits=31), (zlib.error,))


def scan_plain(view: mmap.mmap, start: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the records. After an incomplete one, the next one is searched for."""
    while start < len(view):
        end = _end_of_record(view, start)
        if end is None:
            found = view.find(b"\r\n\r\nWARC/1.", start)
            yield start, (found + 4 if found >= 0 else len(view)), False
            start = found + 4 if found >= 0 else len(view)
        else:
            yield start, end, True
            start = end


def _end_of_record(view: mmap.mmap, start: int) -> int | None:
    head = view.find(b"\r\n\r\n", start, start + _MOST_HEAD)
    if head < 0 or view[start : start + 5] != b"WARC/":
        return None
    for line in view[start:head].split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            end = head + 4 + int(value) + 4
            return end if view[end - 4 : end] == b"\r\n\r\n" else None
    return None
