"""Entries: requests as other programs write them. A URL, a JSON object, or columns of text.

Feeds and ``silkline enqueue`` read these. docs/how-to/feeds.md describes the format for producers in any language.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec

from silkline.core.request import Request
from silkline.errors import RequestError

AN_ENTRY = 'an entry is a URL, or a JSON object with a "url"'
META = "meta."
"""The prefix of columns that become fields of meta: the column ``meta.sku`` is ``meta["sku"]``."""
_JSON_COLUMNS = ("headers", "meta", "cookies", "args")


class BadEntry(RequestError):
    """An entry that is not a request; its text is the reason."""


class _Fields(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of an entry: those of `Request` that another program may set."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: str = ""
    meta: dict[str, Any] = {}
    priority: int = 0
    depth: int = 0
    handler: str | None = None
    dont_filter: bool = False
    not_before: float | str | None = None
    cookies: dict[str, str] = {}
    auth: tuple[str, str] | None = None
    timeout: float | None = None
    download_slot: str | None = None
    retries: list[float] | None = None
    max_attempts: int | None = None
    expires: float | str | None = None
    args: dict[str, Any] = {}
    session: str | None = None


COLUMNS = tuple(_Fields.__struct_fields__)
"""The names of the fields, which are also those of columns."""
_decoder = msgspec.json.Decoder(_Fields)
_row_decoder = msgspec.json.Decoder(list[str])


def read_entry(data: bytes) -> str | Request:
    """Return the request of an entry, or its URL if it has nothing else. Raises `BadEntry`.

    A JSON array is read as names and values of columns, one after the other: ``["url", "https://…", "priority", "5"]``.
    URLs are not checked here: the frontier does that.
    """
    text = data.strip()
    first = text[:1]
    if first == b"{":
        return _to_request(_decoded(_decoder, text))
    if first == b"[":
        row = _decoded(_row_decoder, text)
        return read_row(dict(zip(row[::2], row[1::2], strict=False)))
    if not text:
        raise BadEntry(f"it is empty; {AN_ENTRY}")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise BadEntry(f"it is not valid UTF-8; {AN_ENTRY}") from None


def read_row(row: Mapping[str, Any]) -> str | Request:
    """Return the request of a row of columns: text, as of a CSV file, or values, as of a database. Raises `BadEntry`.

    An empty column (an empty text or None) has its default.
    """
    given = {name: _plain(value) for name, value in row.items() if value is not None and value != ""}
    fields = {name: value for name, value in given.items() if not name.startswith(META)}
    for name in _JSON_COLUMNS:
        if isinstance(fields.get(name), str):
            fields[name] = _json(name, fields[name], dict, "a JSON object")
    if isinstance(fields.get("retries"), str):
        fields["retries"] = _json("retries", fields["retries"], list, "a JSON array such as [1, 10, 60]")
    if isinstance(fields.get("auth"), str):
        fields["auth"] = fields["auth"].partition(":")[::2]
    own = {name.removeprefix(META): value for name, value in given.items() if name.startswith(META)}
    if own:
        fields["meta"] = {**fields.get("meta", {}), **own}
    try:
        return _to_request(msgspec.convert(fields, _Fields, strict=False))
    except msgspec.ValidationError as error:
        raise BadEntry(_reason(error)) from None


def unknown_columns(names: Iterable[str]) -> list[str]:
    """Return the names that are neither those of fields nor begin with ``meta.``."""
    return [name for name in names if name not in COLUMNS and not name.startswith(META)]


def _decoded(decoder: msgspec.json.Decoder[Any], text: bytes) -> Any:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise BadEntry(_reason(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadEntry(f"it is not valid JSON: {_first_small(error)}") from None
    except RecursionError:
        raise BadEntry("its JSON is nested too deeply") from None


def _reason(error: msgspec.ValidationError) -> str:
    """Return an error of msgspec as a sentence: `Expected `int`, got `str` - at `$.priority``."""
    text = str(error).replace("`", "")
    if text == "Object missing required field url":
        return f'it has no "url"; {AN_ENTRY}'
    if found := re.fullmatch(r"Object contains unknown field (.*)", text, re.DOTALL):
        return f'it has an unknown field "{found[1][:50]}"; put extra values in "meta"; the fields are {", ".join(COLUMNS)}'
    what, _, where = text.partition(" - at $")
    name = where.removeprefix(".").replace("[...]", "")
    return f'its "{name[:50]}" is wrong: {_first_small(what)}' if name else f"it is not an entry: {_first_small(what)}"


def _first_small(error: object) -> str:
    text = str(error)[:200]
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _json(name: str, text: str, kind: type, example: str) -> Any:
    """Return the value of a column that has JSON."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise BadEntry(f'its "{name}" must be {example}, got {text[:50]!r}')
    return value


def _plain(value: Any) -> Any:
    """Return a value of a database as JSON has it."""
    if isinstance(value, date):  # a datetime, too
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _to_request(fields: _Fields) -> str | Request:
    if fields == _Fields(fields.url):
        return fields.url.strip()
    return Request(
        fields.url.strip(),
        fields.method.upper(),
        fields.headers,
        fields.body.encode(),
        fields.meta,
        fields.priority,
        fields.depth,
        fields.handler,
        fields.dont_filter,
        _time("not_before", fields.not_before),
        fields.cookies,
        fields.auth,
        fields.timeout,
        download_slot=fields.download_slot,
        retries=fields.retries,
        max_attempts=fields.max_attempts,
        expires=_time("expires", fields.expires),
        args=fields.args,
        session=fields.session,
    )


def _time(name: str, given: float | str | None) -> float | None:
    """Return a unix time. Text may be a number, or a date of ISO 8601, in UTC if it has no time zone."""
    if given is None or isinstance(given, int | float):
        return given
    try:
        number = float(given)
    except ValueError:
        pass
    else:
        if math.isfinite(number):
            return number
    try:
        moment = datetime.fromisoformat(given)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise BadEntry(
            f'its "{name}" must be a unix time in seconds or a date such as 2026-01-31T09:00:00Z, got {given[:50]!r}'
        ) from None
