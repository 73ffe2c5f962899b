"""Checks typed items against the annotations of their class, and names the fields that failed."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from silkline.errors import InvalidItem

log = logging.getLogger(__name__)

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
            if fault := self._fault_of(item):
                faults.setdefault(*fault)
        if faults:
            words = "; ".join(f"{field}: {reason}" for field, reason in faults.items())
            raise InvalidItem(words, tuple(faults))

    def _fault_of(self, item: object) -> tuple[str, str] | None:
        kind = type(item)
        if not _is_typed(kind) or kind in self._unsupported:
            return None
        try:
            msgspec.convert(msgspec.to_builtins(item), kind)
        except msgspec.ValidationError as error:
            words = str(error)
            place = _PLACE.search(words)
            path = _INDEX.sub("[]", place["path"] or "") if place else ""
            return f"{kind.__name__}{path}", _PLACE.sub("", words)
        except (TypeError, NameError, RecursionError) as error:  # an annotation, or a value, that msgspec does not know
            self._unsupported.add(kind)
            log.warning("items of the class %s are not checked: %s", kind.__name__, error)
        return None


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
