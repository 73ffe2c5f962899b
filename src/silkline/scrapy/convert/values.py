"""Converts values of meta and cb_kwargs to types that msgpack has, and back to equal values of the same type.

Values are never pickled. Instances of the project's classes are stored by `classes`. A value of any other type is refused, with its
place in the request. Only strings that a parser or Scrapy's downloader has marked, such as those of lxml, come back as plain strings.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from silkline.scrapy.convert.classes import UnstorableValue, UnusableRequest, put_together, take_apart
from silkline.scrapy.convert.playwright import is_page_method, make_page_method
from silkline.scrapy.convert.slots import AutomaticSlot

TAG = "\x00"
"""The only key of a map that stands for a value of another type. A user's dict with that key is wrapped too."""

_PLAIN = frozenset((str, bool, type(None), float, bytes))
_LEAST, _MOST = -(2**63), 2**64 - 1
_DEEPEST = 100


def pack(value: Any, path: str, depth: int = 0) -> Any:
    """Return *value* as strings, numbers, lists and maps. Raises `UnstorableValue`, with *path* as its place."""
    kind = type(value)
    if kind in _PLAIN or (kind is int and _LEAST <= value <= _MOST):
        return value
    if depth > _DEEPEST:
        raise UnstorableValue(f"{path[:200]}: nested deeper than {_DEEPEST} levels, or contains itself")
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
    if kind in _COLLECTIONS:
        return {TAG: [kind.__name__, pack(_COLLECTIONS[kind](value, path), path, depth + 1)]}
    if kind is datetime or kind is time:
        return {TAG: _pack_time(value, path)}
    if is_page_method(kind):
        return {TAG: ["PageMethod", _pack_page_method(value, path, depth)]}
    return _pack_instance(kind, value, path, depth)


def _pack_instance(kind: type, value: Any, path: str, depth: int) -> Any:
    if kind.__module__ in _MARKED_STRINGS and isinstance(value, str):
        return str.__str__(value)
    try:
        stored = take_apart(value)
    except UnstorableValue as error:
        raise UnstorableValue(f"{path}: {error}") from None
    if stored is not None:
        return {TAG: [stored.kind, [stored.path, pack(stored.content, path, depth + 1)]]}
    raise UnstorableValue(f"{path}: a {kind.__module__}.{kind.__qualname__} cannot be stored")


def _pack_time(value: datetime | time, path: str) -> list[Any]:
    """Return a date and time, or a time, with its zone. A zone with a name is stored by its name."""
    zone = value.tzinfo
    if zone is None or type(zone) is timezone:
        return [type(value).__name__, value.isoformat() if not value.fold else [value.isoformat(), None, 1]]
    if type(zone) is ZoneInfo and zone.key:
        return [type(value).__name__, [value.replace(tzinfo=None).isoformat(), zone.key, value.fold]]
    raise UnstorableValue(
        f"{path}: its time zone, a {type(zone).__module__}.{type(zone).__qualname__}, cannot be stored; "
        "use zoneinfo.ZoneInfo or datetime.timezone"
    )


def _read_time(kind: type[Any]) -> Callable[[Any], Any]:
    def read(stored: Any) -> Any:
        if isinstance(stored, str):
            return kind.fromisoformat(stored)
        text, zone, fold = stored
        value = kind.fromisoformat(text)
        return value.replace(fold=fold, tzinfo=ZoneInfo(zone) if zone else value.tzinfo)

    return read


def _pack_default_dict(value: defaultdict[Any, Any], path: str) -> list[Any]:
    factory = value.default_factory
    name = next((name for name, known in _FACTORIES.items() if known is factory), None)
    if name is None:
        raise UnstorableValue(
            f"{path}: a defaultdict whose default_factory is {getattr(factory, '__qualname__', factory)!r} cannot be stored; "
            f"it must be one of {', '.join(filter(None, _FACTORIES))}"
        )
    return [name, *_pairs(value)]


def _pairs(value: dict[Any, Any]) -> list[list[Any]]:
    return [[key, one] for key, one in value.items()]


def _pack_page_method(value: Any, path: str, depth: int) -> list[Any]:
    if not isinstance(value.method, str):
        raise UnstorableValue(f"{path}: it calls a function; only names of methods of the page can be stored")
    return [
        value.method,
        pack([*value.args], f"{path}.args", depth + 1),
        pack(value.kwargs, f"{path}.kwargs", depth + 1),
    ]


_WORDS: dict[type, Callable[[Any], Any]] = {
    int: str,  # one of more than 64 bits
    bytearray: bytes,
    date: date.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    UUID: str,
    complex: lambda value: [value.real, value.imag],
}
_ROWS = (tuple, set, frozenset)
_FACTORIES: dict[str, Callable[[], Any] | None] = {
    "": None, "list": list, "dict": dict, "set": set, "int": int, "float": float, "str": str, "bool": bool, "tuple": tuple,
}  # fmt: skip
_COLLECTIONS: dict[type, Callable[[Any, str], Any]] = {
    OrderedDict: lambda value, _: _pairs(value),
    Counter: lambda value, _: _pairs(value),
    defaultdict: _pack_default_dict,
    deque: lambda value, _: [value.maxlen, *value],
}
_MARKED_STRINGS = ("lxml.etree", "bs4.element", AutomaticSlot.__module__)
"""Modules whose subclasses of str are stored as str: they refer to the tree in which they were found, or mark where they are from."""

_READERS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "dict": dict,
    "bytearray": lambda content: bytearray(content if isinstance(content, bytes) else b""),
    "date": date.fromisoformat,
    "datetime": _read_time(datetime),
    "time": _read_time(time),
    "timedelta": lambda parts: timedelta(*parts),
    "Decimal": Decimal,
    "UUID": UUID,
    "complex": lambda parts: complex(*parts),
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "OrderedDict": OrderedDict,
    "Counter": lambda pairs: Counter(dict(pairs)),
    "defaultdict": lambda content: defaultdict(_FACTORIES[content[0]], content[1:]),
    "deque": lambda content: deque(content[1:], content[0]),
    "PageMethod": make_page_method,
    "o": lambda content: put_together("o", *content),
    "e": lambda content: put_together("e", *content),
    "a": lambda content: put_together("a", *content),
    "n": lambda content: put_together("n", *content),
    "b": lambda content: put_together("b", *content),
}


def unpack(value: Any) -> Any:
    """Return the value that was given to `pack`. Raises `UnusableRequest` if this process cannot create it."""
    kind = type(value)
    if kind is dict:
        tagged = value.get(TAG)
        if tagged is None:
            return {key: unpack(one) for key, one in value.items()}
        word, content = tagged
        if word not in _READERS:
            raise UnusableRequest(f"a value of the type {word!r} was stored by a later version; upgrade Silkline")
        try:
            return _READERS[word](unpack(content))
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise UnusableRequest(f"a stored {word} cannot be read: {error}") from None
    if kind is list:
        return [unpack(one) for one in value]
    return value
