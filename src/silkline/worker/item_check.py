"""Checks typed items against the annotations of their class, and names the fields that failed."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any, get_type_hints

import msgspec

from silkline.errors import InvalidItem

log = logging.getLogger(__name__)

Fault = tuple[str, str]
"""A field, and why it fails."""

_PLACE = re.compile(r" - at (?:`(?:key in )?\$(?P<path>[^`]*)`|.*)$")
_INDEX = re.compile(r"\[[^]]*\]")


class ItemChecker:
    """Checks the items of a worker: msgspec structs, dataclasses and attrs objects. Pydantic checks its models when they are created."""

    def __init__(self) -> None:
        self._unsupported: set[type] = set()

    def check(self, items: Sequence[object]) -> None:
        """Raise `InvalidItem` with the fields that have another type than their annotation."""
        faults: dict[str, str] = {}
        for item in items:
            for field, reason in self._faults_of(item):
                faults.setdefault(field, reason)
        if faults:
            words = "; ".join(f"{field}: {reason}" for field, reason in faults.items())
            raise InvalidItem(words, tuple(faults))

    def _faults_of(self, item: object) -> Sequence[Fault]:
        """Return the fields that fail, of an item of a known class: all of them, and of a field, its first fault."""
        kind = type(item)
        if not _is_typed(kind) or kind in self._unsupported:
            return ()
        try:
            plain = msgspec.to_builtins(item)
            msgspec.convert(plain, kind)
        except msgspec.ValidationError as error:
            found = [_fault(f"{kind.__name__}.{name}", why) for name, why in _failed_fields(kind, plain)]
            return found or [_fault(kind.__name__, error)]
        except (TypeError, NameError, RecursionError) as error:  # an annotation, or a value, that msgspec does not know
            self._unsupported.add(kind)
            log.warning("items of the class %s are not checked: %s", kind.__name__, error)
        return ()


def _fault(where: str, error: msgspec.ValidationError) -> Fault:
    words = str(error)
    place = _PLACE.search(words)
    return where + (_INDEX.sub("[]", place["path"] or "") if place else ""), _PLACE.sub("", words)


def _failed_fields(kind: type, plain: Any) -> Iterator[tuple[str, msgspec.ValidationError]]:
    """Yield the fields that fail if each of them is converted alone."""
    if not isinstance(plain, dict):
        return  # a struct that is written as an array
    for name, annotation in _fields_of(kind):
        if name not in plain:
            continue
        try:
            msgspec.convert(plain[name], annotation)
        except msgspec.ValidationError as error:
            yield name, error


def _fields_of(kind: type) -> list[tuple[str, Any]]:
    """Return the fields of a class, with the names that they have as plain data, and their types."""
    if issubclass(kind, msgspec.Struct):
        return [(field.encode_name, field.type) for field in msgspec.structs.fields(kind)]
    hints = get_type_hints(kind, include_extras=True)
    return [(name, hints[name]) for name in _names_of(kind) if name in hints]


def _names_of(kind: type) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return [field.name for field in getattr(kind, "__attrs_attrs__", ())]


def _is_typed(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__")


def fields_of(error: BaseException) -> list[str]:
    """Return the fields that failed the check of an item: the check here, or that of a pydantic model that a handler creates."""
    if isinstance(error, InvalidItem):
        return list(error.fields)
    if type(error).__name__ != "ValidationError" or not type(error).__module__.startswith("pydantic"):
        return []
    title = getattr(error, "title", "")
    errors: list[dict[str, Any]] = getattr(error, "errors", list)()
    return sorted({f"{title}.{one['loc'][0]}" if one.get("loc") else title for one in errors})
