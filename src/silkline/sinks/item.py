"""Record: an item on its way to a sink, as plain data that every kind of sink can store."""

from __future__ import annotations

import base64
import math
from collections import deque
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec

from silkline.core.errors import InvalidItem

DEEPEST = 100
"""So many levels may be nested."""
KEY, URL = "_key", "_url"
"""The columns and fields in which sinks keep what a record has beside its item."""

_LIMIT = 2**63


class Record(msgspec.Struct, frozen=True):
    """One item, with the page it came from. A sink that can upsert holds one row per key."""

    key: str
    """The same after a retry of the page."""
    url: str
    item: dict[str, Any]
    """Plain data: None, bool, int (64 bits), float (finite), str, and lists and dicts of them."""


def record_of(key: str, url: str, item: object) -> Record:
    """A record of an item of any kind: dict, dataclass, attrs, pydantic, msgspec, Scrapy.

    Raises `InvalidItem`, naming the field, when the item has something that cannot be stored.
    """
    return Record(key, url, plain_item(item))


def plain_item(item: object) -> dict[str, Any]:
    fields = _fields(item)
    if fields is None:
        raise InvalidItem(f"an item must be a dict, dataclass, attrs, pydantic or msgspec object, got {_kind(item)}")
    try:
        return _plain_fields(fields, 0)
    except _Unstorable as fault:
        raise InvalidItem(f"the item's field {fault.field} {fault.reason}") from None


class _Unstorable(Exception):
    """Found at the bottom of an item; the way down is noted on the way up."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    @property
    def field(self) -> str:
        return ".".join(reversed(self.path))[:200]


def is_item(value: object) -> bool:
    """Whether it is of a kind whose fields can be stored."""
    return isinstance(value, Mapping | msgspec.Struct) or _adapted(value) is not None


def _fields(item: object) -> Mapping[Any, Any] | None:
    if isinstance(item, Mapping):
        return item
    if isinstance(item, msgspec.Struct):
        return msgspec.structs.asdict(item)
    return _adapted(item)


def _adapted(item: object) -> Mapping[Any, Any] | None:
    """The fields of a dataclass, attrs, pydantic or Scrapy object."""
    if isinstance(item, type):
        return None
    from itemadapter import ItemAdapter  # noqa: PLC0415 - it loads Scrapy where that is installed: half a second

    return ItemAdapter(item) if ItemAdapter.is_item(item) else None


def _plain_fields(fields: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            plain[_name(name, plain)] = _plain(value, depth + 1)
        except _Unstorable as fault:
            fault.path.append(str(name))
            raise
    return plain


def _name(name: object, taken: Mapping[str, Any]) -> str:
    if type(name) is str and name.isascii() and name not in taken:
        return name
    if not isinstance(name, str | int):
        raise _Unstorable(f"has a name that is no text, but {_kind(name)}")
    text = _text(name) if isinstance(name, str) else _digits(int(name))
    if text in taken:
        raise _Unstorable("is there twice")
    return text


def _plain(value: object, depth: int) -> Any:
    convert = _USUAL.get(type(value))
    if convert:
        return convert(value)
    if depth > DEEPEST:
        raise _Unstorable(f"is nested deeper than {DEEPEST} levels")
    if type(value) is dict:
        return _plain_fields(value, depth)
    if type(value) is list:
        return _plain_list(value, depth)
    for kind, convert in _CONVERSIONS:
        if isinstance(value, kind):
            return convert(value)
    if isinstance(value, list | tuple | deque | AbstractSet):
        return _plain_list(_in_order(value) if isinstance(value, AbstractSet) else value, depth)
    fields = _fields(value)
    if fields is None:
        raise _Unstorable(
            f"is of type {_kind(value)}, which cannot be stored: make it text, a number, a list or a dict"
        )
    return _plain_fields(fields, depth)


def _plain_list(values: Any, depth: int) -> list[Any]:
    plain = []
    for position, value in enumerate(values):
        try:
            plain.append(_plain(value, depth + 1))
        except _Unstorable as fault:
            fault.path.append(str(position))
            raise
    return plain


def _in_order(values: AbstractSet[Any]) -> list[Any]:
    """A set has no order of its own; the same item must look the same after a retry."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=repr)


def _text(value: str) -> str:
    """Exactly a str, of characters that UTF-8 can say."""
    text = str.__str__(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text


def _integer(value: int) -> int | str:
    """Databases have 64 bits; longer numbers are kept as text."""
    number = int(value)
    return number if -_LIMIT <= number < _LIMIT else _digits(number)


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError:  # Python refuses more than 4300 digits
        return hex(number)


def _real(value: float) -> float | None:
    """JSON has no infinity, and no way to say that something is not a number."""
    return float(value) if math.isfinite(value) else None


def _base64(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(value).decode()


_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: _plain(value.value, 0)),
    (str, _text),
    (int, _integer),
    (float, _real),
    ((datetime, date, time), lambda value: value.isoformat()),
    (timedelta, timedelta.total_seconds),
    ((Decimal, UUID, PurePath), lambda value: _text(str(value))),
    ((bytes, bytearray, memoryview), _base64),
)

_USUAL: dict[type, Callable[[Any], Any]] = {
    str: _text,
    int: _integer,
    float: _real,
    bool: bool,
    type(None): lambda value: value,
}
"""Those that most values are, found at once."""


def _kind(value: object) -> str:
    return type(value).__name__


def row_of(record: Record) -> dict[str, Any]:
    """The item with key and URL in front; fields of the same names make room."""
    taken = {f"{name}_": record.item[name] for name in (KEY, URL) if name in record.item}
    rest = {name: value for name, value in record.item.items() if name not in (KEY, URL)}
    return {KEY: record.key, URL: record.url, **rest, **taken}


def line_of(record: Record, *, with_key: bool) -> bytes:
    """One line of JSON, with its end."""
    return msgspec.json.encode(row_of(record) if with_key else record.item) + b"\n"
