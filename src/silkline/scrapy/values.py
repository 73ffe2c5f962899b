"""What people put into meta and cb_kwargs, as words that msgpack has; and back, equal and of the same type.

What is of a type of somebody's own, such as a text of lxml, comes back as the plain one.
Never pickle: a record is data, whoever wrote it. What has no word here is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from silkline.core.errors import RequestError
from silkline.scrapy.browser import is_page_method, make_page_method

TAG = "\x00"
"""The only key of a map that stands for something else; a user's dict with that key is wrapped too."""

_PLAIN = frozenset((str, bool, type(None), float, bytes))
_LEAST, _MOST = -(2**63), 2**64 - 1
_DEEPEST = 100


class UnstorableValue(RequestError):
    """A request holds something that cannot be stored; the message says where."""


def pack(value: Any, path: str, depth: int = 0) -> Any:
    """*value* in strings, numbers, lists and maps; *path* names it if it cannot be."""
    kind = type(value)
    if kind in _PLAIN or (kind is int and _LEAST <= value <= _MOST):
        return value
    if depth > _DEEPEST:
        raise UnstorableValue(f"{path[:200]}: nested deeper than {_DEEPEST}, or a part of itself")
    if kind is dict:
        return _pack_dict(value, path, depth)
    if kind is list:
        return [pack(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(value)]
    return _pack_other(kind, value, path, depth)


def _pack_dict(value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
    if all(type(key) is str for key in value) and TAG not in value:
        return {key: pack(one, f"{path}[{key!r}]", depth + 1) for key, one in value.items()}
    return {TAG: ["dict", [pack([*pair], f"{path}[{pair[0]!r}]", depth + 1) for pair in value.items()]]}


def _pack_other(kind: type, value: Any, path: str, depth: int) -> Any:
    if kind in _WORDS:
        return {TAG: [kind.__name__, _WORDS[kind](value)]}
    if kind in _ROWS:
        return {TAG: [kind.__name__, [pack(one, f"{path}[…]", depth + 1) for one in value]]}
    if kind is int:
        return {TAG: ["int", str(value)]}
    if is_page_method(kind):
        return {TAG: ["PageMethod", _pack_page_method(value, path, depth)]}
    for base, plain in _BASES.items():
        if isinstance(value, base):
            return pack(plain(value), path, depth)
    raise UnstorableValue(f"{path}: a {kind.__module__}.{kind.__qualname__} cannot be stored")


def _pack_page_method(value: Any, path: str, depth: int) -> list[Any]:
    if not isinstance(value.method, str):
        raise UnstorableValue(f"{path}: it calls a function; only a method of the page, by its name, can be stored")
    return [
        value.method,
        pack([*value.args], f"{path}.args", depth + 1),
        pack(value.kwargs, f"{path}.kwargs", depth + 1),
    ]


_WORDS: dict[type, Callable[[Any], Any]] = {
    bytearray: bytes,
    date: date.isoformat,
    datetime: datetime.isoformat,
    time: time.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    UUID: str,
    complex: lambda value: [value.real, value.imag],
}
_ROWS = (tuple, set, frozenset)
_BASES: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: bytes.__bytes__,
    dict: dict,
    list: list,
    tuple: tuple,
}
"""What is more than one of these, as the texts of lxml are that a link extractor leaves in meta, is stored as just that."""

_READERS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "dict": dict,
    "bytearray": bytearray,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda parts: timedelta(*parts),
    "Decimal": Decimal,
    "UUID": UUID,
    "complex": lambda parts: complex(*parts),
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "PageMethod": make_page_method,
}


def unpack(value: Any) -> Any:
    """What `pack` was given."""
    kind = type(value)
    if kind is dict:
        tagged = value.get(TAG)
        if tagged is None:
            return {key: unpack(one) for key, one in value.items()}
        word, content = tagged
        if word not in _READERS:
            raise UnstorableValue(f"a value of the kind {word!r} was stored by a later version: upgrade Silkline")
        return _READERS[word](unpack(content))
    if kind is list:
        return [unpack(one) for one in value]
    return value
