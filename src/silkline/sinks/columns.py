"""Columns: how the fields of items become those of a table, for all sinks that have one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from silkline.sinks.item import KEY, URL, Record

MOST_COLUMNS = 400
"""Databases have limits, and names may come from the web; what has no column goes, as JSON, to the last one."""
MORE = "_more"
RESERVED = (KEY, URL, MORE)
EXACT = 2**53
"""Integers up to this are exact as floating-point numbers."""


class Kind(StrEnum):
    """What a column holds."""

    NULL = "null"  # nothing yet
    BOOLEAN = "boolean"
    INTEGER = "integer"
    REAL = "real"
    NUMBER = "number"  # integers and reals
    TEXT = "text"
    JSON = "json"  # lists and dicts


_KINDS = {
    type(None): Kind.NULL,
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.REAL,
    str: Kind.TEXT,
    list: Kind.JSON,
    dict: Kind.JSON,
}
_NUMBERS = {Kind.INTEGER, Kind.REAL, Kind.NUMBER}


def kind_of(value: Any) -> Kind:
    return _KINDS[type(value)]


def widened(kind: Kind, value: Any) -> Kind:
    """The narrowest kind that holds the column and the value, both as they are."""
    new = kind_of(value)
    if new in (kind, Kind.NULL):
        return kind
    if kind is Kind.NULL:
        return new
    if kind is Kind.REAL and new is Kind.INTEGER and abs(value) <= EXACT:
        return kind
    return Kind.NUMBER if {kind, new} <= _NUMBERS else Kind.TEXT


def as_text(value: Any) -> str | None:
    """Text as it is, everything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


class Names(msgspec.Struct, frozen=True):
    """What a table can call its columns."""

    longest: int = 10_000
    """In bytes."""
    ignores_case: bool = False
    allows_nul: bool = False
    reserved: tuple[str, ...] = RESERVED

    def fold(self, name: str) -> str:
        return name.lower() if self.ignores_case else name


class Layout:
    """The columns of a table and what they hold, as far as we know. It grows with the items that are laid out."""

    def __init__(self, columns: Mapping[str, Kind], names: Names) -> None:
        self.columns = dict(columns)
        self._names = names
        self._folded = {names.fold(column) for column in columns}
        self._column_of: dict[str, str] = {}

    def cells(self, item: dict[str, Any]) -> dict[str, Any]:
        """The values of an item by column. A column that it needs, or a wider one, is there afterwards."""
        cells: dict[str, Any] = {}
        more: dict[str, Any] = {}
        for field, value in item.items():
            column = self._column_of.get(field) or self._find(field)
            if column not in self.columns:
                if len(self.columns) >= MOST_COLUMNS:
                    more[field] = value
                    continue
                self._add(column)
            cells[column] = value
            self.columns[column] = widened(self.columns[column], value)
        if more:
            cells[MORE] = more
            self.columns.setdefault(MORE, Kind.JSON)
        return cells

    def row(self, record: Record) -> dict[str, Any]:
        return {KEY: record.key, URL: record.url, **self.cells(record.item)}

    def _add(self, column: str) -> None:
        self.columns[column] = Kind.NULL
        self._folded.add(self._names.fold(column))

    def _find(self, field: str) -> str:
        """The column of a field: its own name wherever that can be.

        Else a part of it with a hash, so that every process comes to the same.
        """
        names = self._names
        clean = field if names.allows_nul else field.replace("\0", "")
        clean = _cut(clean, names.longest)
        is_free = field in self.columns or names.fold(field) not in self._folded
        if clean != field or not field or names.fold(field) in names.reserved or not is_free:
            digest = hashlib.blake2b(field.encode(), digest_size=4).hexdigest()
            clean = f"{_cut(clean, names.longest - 9) or 'field'}_{digest}"
        self._column_of[field] = clean
        return clean


def _cut(name: str, longest: int) -> str:
    return name.encode()[:longest].decode(errors="ignore")
