"""OwnTable: how items become rows of a table that the user created, with the key columns that the user chose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from silkline.errors import ConfigError, InvalidItem
from silkline.sinks.columns import ColumnKind, as_text, kind_of
from silkline.sinks.destination import Destination
from silkline.sinks.sink import KEY, URL, Record

MOST_NAMED = 5
"""Fields that an error names."""
LONGEST_NAMED = 60

TableRow = dict[str, Any]


class Dialect(NamedTuple):
    """What differs between databases in the statements that an error suggests."""

    quoted: Callable[[str], str]
    type_of: Mapping[ColumnKind, str]
    names_indexes: bool = False
    """Whether an index needs a name."""
    ignores_case: bool = False
    """Whether ``sku`` and ``SKU`` are the same column."""

    escaped: Callable[[str], str] = str
    """Escapes what has a meaning in a statement with parameters."""

    def fold(self, name: str) -> str:
        return name.lower() if self.ignores_case else name


class OwnTable:
    """The table of ``?table=products&key=sku``. Nothing is created or altered: errors show the statement that would help."""

    def __init__(self, destination: Destination, name: str, dialect: Dialect) -> None:
        self._name = name
        self._where = f"the table {name} of {destination.public}"
        self._dialect = dialect
        given = destination.options["key"]
        self.key = tuple(given.split(","))
        if not all(self.key) or len(set(map(dialect.fold, self.key))) < len(self.key) or "\0" in given:
            raise ConfigError(
                f"the option key of {destination.public} must be a column or several, such as key=shop,sku, got {given!r}"
            )
        self._columns: dict[str, str] = {}
        self._required: frozenset[str] = frozenset()

    # ── the table ──

    def learn(self, columns: Iterable[str], required: Iterable[str]) -> None:
        """Store the columns that can be written, and those that a new row needs a value for. Raises `ConfigError` if a key column is missing."""
        fold = self._dialect.fold
        self._columns = {fold(column): column for column in columns}
        if not self._columns:
            raise ConfigError(f"{self._where} does not exist, and with ?key= it is not created: {self._create()}")
        self._required = frozenset(required)
        missing = [name for name in self.key if fold(name) not in self._columns]
        if missing:
            raise ConfigError(
                f"{self._where} has no column {', '.join(missing)}, which ?key= names: {self._add(dict.fromkeys(missing, ''))}"
            )
        self.key = tuple(self._columns[fold(name)] for name in self.key)

    def without_index(self) -> ConfigError:
        """The error if the database has no unique index for the key."""
        columns = self._listed(self.key)
        plain = self._name.replace('"', "").replace(".", "_")
        name = self._dialect.quoted(f"{plain}_{'_'.join(self.key)}") + " " if self._dialect.names_indexes else ""
        return ConfigError(
            f"{self._where} has no unique index on ({', '.join(self.key)}), which ?key= needs: "
            f"CREATE UNIQUE INDEX {name}ON {self._name} ({columns})"
        )

    def _create(self) -> str:
        type_ = self._dialect.type_of[ColumnKind.TEXT]
        columns = "".join(f"{self._dialect.quoted(name)} {type_} NOT NULL, " for name in self.key)
        return f"CREATE TABLE {self._name} ({columns}…, PRIMARY KEY ({self._listed(self.key)}))"

    def _add(self, fields: Mapping[str, Any]) -> str:
        """Return the statement that adds a column for each field, unless its name is not fit to be shown."""
        if not all(name.isprintable() and 0 < len(name) <= LONGEST_NAMED for name in fields):
            return "leave it out, or rename it"
        quoted, type_of = self._dialect.quoted, self._dialect.type_of
        kinds = {name: ColumnKind.TEXT if value is None else kind_of(value) for name, value in fields.items()}
        return "; ".join(
            f"ALTER TABLE {self._name} ADD COLUMN {quoted(name)} {type_of[kind]}" for name, kind in kinds.items()
        )

    def _listed(self, columns: Iterable[str]) -> str:
        return ", ".join(map(self._dialect.quoted, columns))

    # ── rows ──

    def knows(self, records: Sequence[Record]) -> bool:
        """Whether each field has a column, as far as the columns are known."""
        fold = self._dialect.fold
        return all(fold(field) in self._columns for record in records for field in record.item)

    def rows(self, records: Sequence[Record]) -> list[TableRow]:
        """Return one row per record with the columns that its item has, in the order of the keys.

        The same order in all processes prevents deadlocks; items with the same key keep their order. Raises `InvalidItem`
        for a field without a column, and for an item without a key.
        """
        rows = [self._row(record) for record in records]
        return sorted(rows, key=lambda row: [as_text(row[name]) or "" for name in self.key])

    def _row(self, record: Record) -> TableRow:
        fold, columns = self._dialect.fold, self._columns
        missing = {field: value for field, value in record.item.items() if fold(field) not in columns}
        if missing:
            some = dict(list(missing.items())[:MOST_NAMED])
            raise InvalidItem(f"{self._where} has no column for {_shown(some)}: {self._add(some)}")
        row = {
            columns[name]: value for name, value in ((KEY, record.key), (URL, record.url)) if name in columns
        }  # the item's own field of that name comes first
        seen: dict[str, str] = {}
        for field, value in record.item.items():
            column = columns[fold(field)]
            if column in seen:
                raise InvalidItem(f"the item's fields {seen[column]} and {field} are the same column of {self._where}")
            seen[column] = field
            row[column] = value
        without = [name for name in self.key if row.get(name) is None]
        if without:
            raise InvalidItem(
                f"the item has no {', '.join(without)}, which is the key of {self._where}: give each item a value for it"
            )
        return row

    def runs(self, rows: Sequence[TableRow]) -> Iterator[tuple[tuple[str, ...], list[TableRow]]]:
        """Return runs of rows that have the same columns, each with its columns."""
        for columns, run in groupby(rows, key=lambda row: tuple(sorted(row))):
            yield columns, list(run)

    def must_exist(self, columns: Sequence[str]) -> bool:
        """Whether a row with only these columns can change an existing row but cannot be inserted.

        Databases check NOT NULL before they look for the row with the same key, so such a row is first updated.
        """
        return not self._required.issubset(columns)

    def refused(self, reason: str) -> InvalidItem:
        """The error if the database refuses a row because of a value or a constraint."""
        return InvalidItem(f"{self._where} does not accept the item: {reason}")

    # ── statements ──

    def insert(self, columns: Sequence[str], mark: str) -> str:
        """Return the statement that inserts a row, or updates these columns of the row with the same key."""
        names = {name: self._in_statement(name) for name in (*columns, *self.key)}
        updates = ", ".join(f"{names[name]} = excluded.{names[name]}" for name in columns if name not in self.key)
        return (
            f"INSERT INTO {self._dialect.escaped(self._name)} ({', '.join(names[name] for name in columns)}) "  # noqa: S608 - quoted
            f"VALUES ({', '.join([mark] * len(columns))}) ON CONFLICT ({', '.join(names[name] for name in self.key)}) "
            + (f"DO UPDATE SET {updates}" if updates else "DO NOTHING")
        )

    def update(self, columns: Sequence[str], mark: str) -> str:
        """Return the statement that updates the row with the same key; its last values are the key."""
        changes, key = ([f"{self._in_statement(name)} = {mark}" for name in names] for names in (columns, self.key))
        return f"UPDATE {self._dialect.escaped(self._name)} SET {', '.join(changes)} WHERE {' AND '.join(key)}"  # noqa: S608 - quoted

    def _in_statement(self, name: str) -> str:
        return self._dialect.escaped(self._dialect.quoted(name))


def _shown(fields: Iterable[str]) -> str:
    return "the field " + ", ".join(repr(name[:LONGEST_NAMED]) for name in fields)
