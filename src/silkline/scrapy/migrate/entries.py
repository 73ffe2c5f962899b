"""Entries of a queue key: the pickles and the JSON of scrapy-redis, and what the queues of `silkline.scrapy.queue` store."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from scrapy import Request as ScrapyRequest
from scrapy.utils.request import fingerprint
from w3lib.url import canonicalize_url

from silkline.core.request import MAX_PRIORITY, Request, check
from silkline.core.url import parse
from silkline.errors import RequestError
from silkline.scrapy.convert.requests import from_dict
from silkline.scrapy.dupefilter import RFPDupeFilter
from silkline.scrapy.migrate.pickles import loads, read_plain_fields

PICKLE, JSON = b"\x80", b"{"
OWN = b"\xc1\xc1"
"""The first bytes of an entry of Silkline. Neither a pickle, nor JSON, nor msgpack begins with them."""

_BARE = Request("")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Request)


def write_entry(request: Request) -> bytes:
    """Return a request as an entry. Fields that have their default are left out."""
    fields = msgspec.structs.asdict(request)
    return OWN + _encoder.encode({name: value for name, value in fields.items() if value != getattr(_BARE, name)})


def read_entry(data: bytes, score: float | None = None) -> Request:
    """Return the request of an entry with this score in a sorted set. Raises `RequestError` if it is not a request, or not plain data."""
    if data[: len(OWN)] == OWN:
        return _with_priority(_read_own(data), score)
    fields = _read_fields(data)
    if not isinstance(fields, dict) or not isinstance(fields.get("url"), str):
        raise RequestError("not a Scrapy request: it has no url")
    try:
        return _with_priority(from_dict(fields), score)
    except RequestError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise RequestError(f"not a Scrapy request: {error}") from None


def _read_own(data: bytes) -> Request:
    try:
        request = _decoder.decode(data[len(OWN) :])
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"a damaged entry: {error}") from None
    check(request)
    parse(request.url)
    return request


def fingerprints_of(data: bytes) -> set[bytes]:
    """Return the fingerprints that releases of scrapy-redis give to the request of an entry; none if its URL cannot be read."""
    try:
        fields = _readable_fields(data)
        request = ScrapyRequest(fields["url"], method=fields.get("method") or "GET", body=fields.get("body") or b"")
        parts = (request.method.encode(), canonicalize_url(request.url).encode(), request.body)
    except (RequestError, KeyError, TypeError, ValueError, AttributeError):
        return set()
    early = hashlib.sha1(b"".join(parts), usedforsecurity=False).hexdigest()
    return {RFPDupeFilter().request_fingerprint(request).encode(), fingerprint(request).hex().encode(), early.encode()}


def is_filtered(data: bytes) -> bool:
    """Return whether the request of an entry passed the dupefilter when it was scheduled, as far as can be read."""
    try:
        return not _readable_fields(data).get("dont_filter")
    except RequestError:
        return True


def _readable_fields(data: bytes) -> dict[str, Any]:
    """Return the fields of an entry that can be read, even if the request as a whole cannot be imported."""
    if data[: len(OWN)] == OWN:
        return msgspec.structs.asdict(_read_own(data))
    if data[:1] == PICKLE:
        return read_plain_fields(data)
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def _with_priority(request: Request, score: float | None) -> Request:
    """Return the request with the priority of its queue: the negated score of a sorted set, 0 in a list."""
    exact = request.meta.get("p", request.priority)
    served = 0 if score is None else max(-MAX_PRIORITY, min(-score, MAX_PRIORITY))
    if served == exact:
        return request
    return msgspec.structs.replace(request, priority=round(served), meta={**request.meta, "p": exact})


def _read_fields(data: bytes) -> Any:
    if data[:1] == PICKLE:
        return loads(data)
    if data[:1] != JSON:
        raise RequestError("neither a pickle nor JSON")
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"not valid JSON: {error}") from None
    return _with_bytes(fields)


def _with_bytes(fields: dict[str, Any]) -> dict[str, Any]:
    """Encode the body and the headers, which are bytes in Scrapy and strings in JSON."""
    body, headers = fields.get("body"), fields.get("headers")
    if isinstance(body, str):
        fields["body"] = body.encode()
    if isinstance(headers, dict):
        fields["headers"] = {
            name.encode(): [_bytes(value) for value in (values if isinstance(values, list) else [values])]
            for name, values in headers.items()
        }
    return fields


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
