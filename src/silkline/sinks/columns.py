"""Columns: map the fields of items to the columns of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from silkline.sinks.sink import KEY, URL, Record

MOST_COLUMNS = 400
"""Maximum number of columns. Databases have limits, and field names may come from the web; other fields are stored as JSON in the last column."""
MORE = "_more"
RESERVED = (KEY, URL, MORE)
EXACT = 2**53
"""Largest integer that a floating-point number represents exactly."""


class ColumnKind(StrEnum):
    """The type of a column."""

    NULL = "null"  # no value yet
    BOOLEAN = "boolean"
    INTEGER = "integer"
    REAL = "real"
    NUMBER = "number"  # integers and reals
    TEXT = "text"
    JSON = "json"  # lists and dicts


_KINDS = {
    type(None): ColumnKind.NULL,
    bool: ColumnKind.BOOLEAN,
    int: ColumnKind.INTEGER,
    float: ColumnKind.REAL,
    str: ColumnKind.TEXT,
    list: ColumnKind.JSON,
    dict: ColumnKind.JSON,
}
_NUMBERS = {ColumnKind.INTEGER, ColumnKind.REAL, ColumnKind.NUMBER}


def kind_of(value: Any) -> ColumnKind:
    return _KINDS[type(value)]


def widened(kind: ColumnKind, value: Any) -> ColumnKind:
    """Return the narrowest kind that holds both the column and the value unchanged."""
    new = kind_of(value)
    if new in (kind, ColumnKind.NULL):
        return kind
    if kind is ColumnKind.NULL:
        return new
    if kind is ColumnKind.REAL and new is ColumnKind.INTEGER and abs(value) <= EXACT:
        return kind
    return ColumnKind.NUMBER if {kind, new} <= _NUMBERS else ColumnKind.TEXT


def as_text(value: Any) -> str | None:
    """Return text unchanged, and everything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


class ColumnNames(msgspec.Struct, frozen=True):
    """The rules for column names of a table."""

    longest: int = 10_000
    """Maximum length in bytes."""
    ignores_case: bool = False
    allows_nul: bool = False
    reserved: tuple[str, ...] = RESERVED

    def fold(self, name: str) -> str:
        return name.lower() if self.ignores_case else name


class Layout:
    """The known columns of a table and their kinds. New items may add columns or widen them."""

    def __init__(self, columns: Mapping[str, ColumnKind], names: ColumnNames) -> None:
        self.columns = dict(columns)
        self._names = names
        self._folded = {names.fold(column) for column in columns}
        self._column_of: dict[str, str] = {}

    def cells(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the values of an item by column. Missing columns are added, and too narrow ones widened."""
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
            self.columns.setdefault(MORE, ColumnKind.JSON)
        return cells

    def row(self, record: Record) -> dict[str, Any]:
        return {KEY: record.key, URL: record.url, **self.cells(record.item)}

    def _add(self, column: str) -> None:
        self.columns[column] = ColumnKind.NULL
        self._folded.add(self._names.fold(column))

    def _find(self, field: str) -> str:
        """Return the column of a field: the name of the field if possible.

        Otherwise a part of the name with a hash, so that all processes use the same column.
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
