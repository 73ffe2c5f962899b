"""Bodies of requests: JSON, and fields in the encoding of HTML forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import msgspec

from silkline.errors import RequestError

JSON = "application/json"
URLENCODED = "application/x-www-form-urlencoded"

Fields = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""Fields of a form. A list has a value for each field of that name, and None leaves the field out."""


class Body(NamedTuple):
    """A body, and its Content-Type."""

    content: bytes
    content_type: str


def json_body(value: Any) -> Body:
    """Return *value* as JSON. Raises `RequestError` if JSON cannot have it."""
    try:
        return Body(msgspec.json.encode(value), JSON)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RequestError(f"json= cannot be written as JSON: {error}") from None


def data_body(fields: Fields) -> Body:
    """Return *fields* as a form without files sends them. Raises `RequestError` for values that are not text or numbers."""
    given: object = fields
    if isinstance(given, str | bytes) or not isinstance(given, Mapping | Iterable):
        raise RequestError(
            f"data must be a dict of fields, or a list of names and values, got {type(fields).__name__}; for other content: body=b'…'"
        )
    try:
        pairs = list(fields.items() if isinstance(fields, Mapping) else fields)
        return Body(urlencode(texts_of(pairs)), URLENCODED)
    except (TypeError, ValueError) as error:
        raise RequestError(f"data must be a dict of fields, or a list of names and values: {error}") from None


def texts_of(pairs: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, str]]:
    """Yield the names and values of fields as text."""
    for name, value in pairs:
        if not isinstance(name, str):
            raise RequestError(f"the name of a field must be text, got {name!r:.100}")
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is not None:
                yield name, text_of(name, one)


def text_of(name: str, value: object) -> str:
    """Return a value of a field as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise RequestError(f"the field {name[:100]!r} must be text, a number or a list of them, got {type(value).__name__}")


def urlencode(pairs: Iterable[tuple[str, str]], charset: str = "utf-8") -> bytes:
    """Return fields as browsers send them. A character that *charset* lacks becomes a numeric reference of HTML."""
    return "&".join(f"{_escape(name, charset)}={_escape(value, charset)}" for name, value in pairs).encode()


def _escape(text: str, charset: str) -> str:
    content = with_crlf(text).encode(charset, "xmlcharrefreplace")
    return quote_plus(content, safe="*").replace("~", "%7E")


def with_crlf(text: str) -> str:
    """Return *text* with the line ends that forms send."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
