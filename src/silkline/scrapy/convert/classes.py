"""Stores instances of the project's classes: items, dataclasses, attrs classes, pydantic models, enums, named tuples, strings, numbers.

Strings and numbers are subclasses of str, int, float and bytes, with their attributes.

An instance is stored as the import path of its class and its fields. Stored data never decides what is imported: the class must be
loaded in this process already, or be named in the setting SILKLINE_CLASSES. Restoring an instance sets its fields as `pickle` does,
without calling its ``__init__``, so that data on the server cannot run code of the class. The exception is an enum, which looks
its member up by value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import msgspec
from scrapy import Item
from scrapy import Request as ScrapyRequest
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from silkline.errors import ConfigError, RequestError

CLASSES = "SILKLINE_CLASSES"
PLAIN_BASES: dict[type[Any], Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: bytes.__bytes__,
}
"""The types that msgpack has and that a class can extend, with what returns the plain value of an instance."""
_ATTRS_HASH = "_attrs_cached_hash"
PYDANTIC_STATE = {
    "d": "__dict__",
    "e": "__pydantic_extra__",
    "s": "__pydantic_fields_set__",
    "p": "__pydantic_private__",
}
"""The parts of a pydantic model, by the letter under which each is stored."""


class UnusableRequest(RequestError):
    """A stored request that this spider cannot use: it has no such callback or class."""


class UnstorableValue(RequestError):
    """A value of a request that cannot be stored; the message has its place."""


class StoredObject(msgspec.Struct, frozen=True):
    """An instance as it is stored. The importer creates one for a class that this process does not have."""

    kind: str
    """``o`` for an object with fields, ``e`` for a member of an enum, ``n`` for a named tuple, ``a`` for members by name, ``b`` for an
    instance of a subclass of str, int, float or bytes."""
    path: str
    content: Any
    """The fields of an object by name or in order, the value of an enum, the values of a named tuple, names of members, or the plain
    value and, if there are any, the attributes."""


class _Kind(NamedTuple):
    word: str
    take: Callable[[Any], Any]
    """Returns the content of an instance."""
    make: Callable[[type[Any], Any], Any]
    """Creates an instance of a class with this content."""


def take_apart(value: Any) -> StoredObject | None:
    """Return an instance of a supported class as it is stored, and None for other values.

    Raises `UnstorableValue` if the instance could not be restored from what is stored.
    """
    cls = type(value)
    if cls is StoredObject:
        return value  # type: ignore[no-any-return]
    kind = _kind_of(cls)
    if kind is None:
        return None
    path = f"{cls.__module__}.{cls.__qualname__}"
    if _find(path) is not cls:
        raise UnstorableValue(f"its class {path} cannot be found by this name; define it at the top level of a module")
    return StoredObject(kind.word, path, kind.take(value))


def put_together(word: str, path: Any, content: Any) -> Any:
    """Return the instance that `take_apart` was given. Raises `UnusableRequest` if this process has no such class."""
    cls = find_class(path)
    kind = _kind_of(cls) if isinstance(cls, type) else None
    if kind is None or (kind.word != ("e" if word == "a" else word) and (kind.word, word) != ("b", "n")):
        raise UnusableRequest(f"{path} is not a class whose instances Silkline stores")
    try:
        return _make_members(cls, content) if word == "a" else kind.make(cls, content)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UnusableRequest(f"a {path} cannot be created from the stored request: {error}") from None


def find_class(path: Any) -> Any:
    """Return a class that this process has imported already. Stored data never decides what is imported."""
    found = _find(path) if isinstance(path, str) else None
    if found is None:
        raise UnusableRequest(
            f"its class {path} is not imported in this process; name it in the settings: {CLASSES} = [{path!r}]"
        )
    return found


def load_classes(settings: BaseSettings) -> None:
    """Import the classes that the project names in SILKLINE_CLASSES."""
    for path in settings.getlist(CLASSES):
        try:
            found = load_object(path)
        except (ImportError, NameError, ValueError) as error:
            raise ConfigError(f"{CLASSES} names {path}, which cannot be imported: {error}") from None
        if not isinstance(found, type) or not (issubclass(found, ScrapyRequest) or _kind_of(found)):
            raise ConfigError(
                f"{CLASSES} names {path}, which is neither a subclass of scrapy.Request or scrapy.Item, nor a dataclass, "
                "attrs class, pydantic model, enum, named tuple or subclass of str, int, float or bytes"
            )


def _find(path: str) -> Any:
    """Return what a loaded module has under *path*, also a class inside a class."""
    module, _, names = path.rpartition(".")
    inner = [names]
    while module and module not in sys.modules:
        module, _, name = module.rpartition(".")
        inner.insert(0, name)
    found: Any = sys.modules.get(module)
    for name in inner:
        found = vars(found).get(name) if found is not None and hasattr(found, "__dict__") else None
    return found


# ── kinds of classes ─────────────────────────────────────────────────────────────────────────────────────────────────
def _kind_of(cls: type[Any]) -> _Kind | None:
    if cls in _kinds:
        return _kinds[cls]
    kind = next((kind for matches, kind in _RULES if matches(cls)), None)
    _kinds[cls] = kind
    return kind


_kinds: dict[type[Any], _Kind | None] = {}


def _take_item(item: Item) -> dict[str, Any]:
    further = vars(item).keys() - {"_values"}
    if further:
        raise UnstorableValue(f"a {type(item).__qualname__} with the attribute {min(further)!r}, which is not a field")
    values: dict[str, Any] = item._values  # noqa: SLF001 - an own __init__ or property is not asked
    return values


def _make_item(cls: type[Item], content: Any) -> Item:
    item = Item.__new__(cls)
    item.__dict__["_values"] = _by_name(content)
    return item


def _take_fields(value: Any) -> dict[str, Any]:
    """Return the attributes of an instance: those in its ``__dict__``, and the fields that are slots."""
    found = dict(getattr(value, "__dict__", {}))
    for name in _field_names(type(value)):
        if name not in found and hasattr(value, name):
            found[name] = getattr(value, name)
    if _ATTRS_HASH in found:
        found[_ATTRS_HASH] = None  # the hash of a string differs in every process
    return found


def _make_fields(cls: type[Any], content: Any) -> Any:
    made = object.__new__(cls)
    if _ATTRS_HASH in _slots(cls):
        object.__setattr__(made, _ATTRS_HASH, None)
    named = (
        zip(_field_names(cls), content, strict=True) if isinstance(content, list | tuple) else _by_name(content).items()
    )
    _set_attributes(made, named)
    return made


def _set_attributes(made: Any, named: Iterable[tuple[str, Any]]) -> None:
    """Set attributes as pickle does, without calling anything of the class."""
    slots, inside = _slots(type(made)), getattr(made, "__dict__", None)
    for name, value in named:
        if inside is None or name in slots:
            object.__setattr__(made, name, value)
        else:
            inside[name] = value


def _take_model(model: Any) -> dict[str, Any]:
    state = {letter: getattr(model, name, None) for letter, name in PYDANTIC_STATE.items()}
    return {letter: part for letter, part in state.items() if part}


def _make_model(cls: type[Any], content: Any) -> Any:
    made = object.__new__(cls)
    parts = _by_name(content)
    for letter, name in PYDANTIC_STATE.items():
        part = parts.get(letter)
        if letter in "ds":
            part = part or ({} if letter == "d" else set())
        object.__setattr__(made, name, part)
    return made


def _make_named_tuple(cls: type[Any], content: Any) -> Any:
    if len(content) != len(cls._fields):
        raise ValueError(f"it has {len(cls._fields)} fields, and {len(content)} are stored")
    return tuple.__new__(cls, content)


def _take_named_tuple(value: Any) -> list[Any]:
    if getattr(value, "__dict__", None):
        raise UnstorableValue(f"a {type(value).__qualname__} with attributes besides its fields")
    return list(value)


def _base_of(cls: type[Any]) -> type[Any]:
    return next(base for base in cls.__mro__ if base in PLAIN_BASES)


def _take_scalar(value: Any) -> list[Any]:
    """Return the value as the built-in type, and the attributes if it has any."""
    cls = type(value)
    plain = PLAIN_BASES[_base_of(cls)](value)
    try:
        _base_of(cls).__new__(cls, plain)
    except TypeError as error:
        raise UnstorableValue(f"a {cls.__module__}.{cls.__qualname__} cannot be stored: {error}") from None
    state = dict(getattr(value, "__dict__", {}))
    state |= {name: getattr(value, name) for name in _slots(cls) - {"__dict__", "__weakref__"} if hasattr(value, name)}
    return [plain, state] if state else [plain]


def _make_scalar(cls: type[Any], content: Any) -> Any:
    plain, *further = content
    base = _base_of(cls)
    if type(plain) is not base or len(further) > 1:
        raise ValueError(f"it needs a value of the type {base.__name__}")
    made = base.__new__(cls, plain)
    _set_attributes(made, _by_name(further[0]).items() if further else ())
    return made


def _make_members(cls: type[Any], names: Any) -> Any:
    """Return the member of an enum with this name; of several, which flags may have, their union. Some Pythons pickle names."""
    return reduce(or_, [cls.__members__[name] for name in names])


def _by_name(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise TypeError("its fields are not stored by name")
    return content


def _field_names(cls: type[Any]) -> tuple[str, ...]:
    if is_dataclass(cls):
        return tuple(field.name for field in fields(cls))
    return tuple(field.name for field in getattr(cls, "__attrs_attrs__", ()))


def _slots(cls: type[Any]) -> set[str]:
    return {name for base in cls.__mro__ for name in vars(base).get("__slots__", ()) if isinstance(name, str)}


def _is_plain(cls: type[Any]) -> bool:
    """Return whether an instance is nothing but its attributes: its class does not extend dict, str, an exception or the like."""
    try:
        object.__new__(cls)
    except TypeError:
        return False
    return True


_OBJECT = _Kind("o", _take_fields, _make_fields)
_RULES: list[tuple[Callable[[type[Any]], bool], _Kind]] = [
    (lambda cls: issubclass(cls, Item), _Kind("o", _take_item, _make_item)),
    (lambda cls: issubclass(cls, Enum), _Kind("e", lambda member: member.value, lambda cls, value: cls(value))),
    (
        lambda cls: issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make"),
        _Kind("n", _take_named_tuple, _make_named_tuple),
    ),
    (
        lambda cls: hasattr(cls, "__pydantic_fields__") and not is_dataclass(cls),
        _Kind("o", _take_model, _make_model),
    ),
    (lambda cls: (is_dataclass(cls) or hasattr(cls, "__attrs_attrs__")) and _is_plain(cls), _OBJECT),
    (
        lambda cls: issubclass(cls, tuple(PLAIN_BASES)) and cls not in PLAIN_BASES and cls is not bool,
        _Kind("b", _take_scalar, _make_scalar),
    ),
]
