"""A table in a SQLite file. One row per key, even if a record is written several times."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from silkline.errors import ConfigError, InvalidItem, SinkUnavailable
from silkline.sinks.columns import EXACT, ColumnKind, ColumnNames, Layout, as_text
from silkline.sinks.destination import Destination
from silkline.sinks.files import make_directory
from silkline.sinks.own_table import Dialect, OwnTable
from silkline.sinks.sink import KEY, URL, Record

BUSY_SECONDS = 10.0
RETRY_SECONDS = 0.01
_NAMES = ColumnNames(ignores_case=True)
_TYPES = {
    ColumnKind.NULL: "",
    ColumnKind.BOOLEAN: "BOOLEAN",
    ColumnKind.INTEGER: "INTEGER",
    ColumnKind.REAL: "REAL",
    ColumnKind.NUMBER: "",
    ColumnKind.TEXT: "TEXT",
    ColumnKind.JSON: "JSON",
}
_COLUMNS = 'SELECT name, type, dflt_value IS NOT NULL OR pk > 0, "notnull" FROM pragma_table_info(?) ORDER BY cid'
_WRONG = ("not a database", "unable to open", "readonly", "not authorized", "is a directory")


class SqliteWriter:
    """One transaction per batch, in WAL mode, on disk when it returns.

    A SQLite column accepts any value, but a numeric column converts text that looks like a number. A column that Silkline
    created loses its type when such a value is written, so that values are stored unchanged.
    """

    def __init__(self, destination: Destination) -> None:
        self._path = destination.path
        self._table = destination.options.get("table", "items")
        if not self._table or "\0" in self._table or self._table.lower().startswith("sqlite_"):
            raise ConfigError(f"{self._table!r} is not a valid name of a SQLite table")
        self._database: sqlite3.Connection | None = None
        self._version = -1
        self._types: dict[str, str] = {}
        self._filled: set[str] = set()
        """Columns with a default value, which may be left out."""
        self._required: set[str] = set()
        """Columns that a new row needs a value for."""
        self._layout = Layout({}, _NAMES)
        self._try_once()

    def _try_once(self) -> None:
        try:
            make_directory(self._path.parent)
            with self._transaction():
                self._learn()
                self._check_table()
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written: {error.strerror}") from None
        except SinkUnavailable as error:
            if any(words in str(error) for words in _WRONG):
                raise ConfigError(str(error)) from None
            raise

    def _check_table(self) -> None:
        if self._types and KEY not in self._types:
            raise ConfigError(
                f"the table {self._table} of {self._path} was not created by Silkline: it has no column {KEY}; "
                "use another table: ?table=NAME, or name the columns of its key: ?key=COLUMN"
            )

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, records: Sequence[Record]) -> None:
        with self._transaction() as database:
            self._learn()
            try:
                rows = [self._layout.row(record) for record in records]
                self._make_room(rows)
                self._upsert(database, rows)
            except BaseException:
                self._version = -1  # the layout may contain columns that do not exist
                raise

    def _upsert(self, database: sqlite3.Connection, rows: list[dict[str, Any]]) -> None:
        used = set().union(*rows)
        columns = [name for name in self._types if name in used or name not in self._filled]
        names = ", ".join(map(quoted, columns))
        updates = ", ".join(f"{name} = excluded.{name}" for name in map(quoted, columns) if name != quoted(KEY))
        statement = (
            f"INSERT INTO {quoted(self._table)} ({names}) VALUES ({', '.join('?' * len(columns))}) "  # noqa: S608 - quoted
            f"ON CONFLICT ({quoted(KEY)}) DO UPDATE SET {updates}"
        )
        types = self._types
        database.executemany(statement, ([_cell(row.get(name), types[name]) for name in columns] for row in rows))

    def empty(self) -> None:
        with self._transaction() as database:
            self._learn()
            if self._types:
                database.execute(f"DELETE FROM {quoted(self._table)}")  # noqa: S608 - quoted

    def close(self) -> None:
        if self._database:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None

    # ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _learn(self) -> None:
        """Read the columns if another process changed them. The transaction prevents changes until it ends."""
        version = self._execute("PRAGMA schema_version").fetchone()[0]
        if version == self._version:
            return
        found = self._execute(_COLUMNS, (self._table,)).fetchall()
        self._types = {str(name): str(type_).upper() for name, type_, *_ in found}
        self._filled = {str(name) for name, _, is_filled, _ in found if is_filled}
        self._required = {str(name) for name, _, is_filled, is_required in found if is_required and not is_filled}
        kinds = {type_: kind for kind, type_ in _TYPES.items() if type_}
        known = {name: kinds.get(type_, ColumnKind.TEXT) for name, type_ in self._types.items()}
        self._layout = Layout(known, _NAMES)
        self._version = version

    def _make_room(self, rows: list[dict[str, Any]]) -> None:
        """Create the table, add missing columns, and remove column types that would change a value."""
        if not self._types:
            self._create(self._table, {KEY: "TEXT", URL: "TEXT"})
        needed = {URL: ColumnKind.TEXT, **self._layout.columns}
        for name in [name for name, kind in needed.items() if kind is not ColumnKind.NULL and name not in self._types]:
            type_ = _TYPES[needed[name]]
            self._execute(f"ALTER TABLE {quoted(self._table)} ADD COLUMN {quoted(name)} {type_}")
            self._types[name] = type_
        altered = {
            name
            for row in rows
            for name, value in row.items()
            if name in self._types and _alters(self._types[name], value)
        }
        if altered and self._is_ours():
            self._free(altered)

    def _create(self, table: str, types: dict[str, str]) -> None:
        columns = [f"{quoted(name)} {type_}" + " PRIMARY KEY" * (name == KEY) for name, type_ in types.items()]
        self._execute(f"CREATE TABLE {quoted(table)} ({', '.join(columns)})")
        if table == self._table:
            self._types = dict(types)

    def _is_ours(self) -> bool:
        """Whether Silkline created the table. Other tables may have constraints that a copy would lose, so they keep their types."""
        (made,) = self._execute("SELECT sql FROM sqlite_master WHERE name = ?", (self._table,)).fetchone()
        return str(made).startswith(
            f"CREATE TABLE {quoted(self._table)} ({quoted(KEY)} TEXT PRIMARY KEY, {quoted(URL)}"
        )

    def _free(self, columns: set[str]) -> None:
        """Remove the type of columns, which requires a copy of the table in SQLite."""
        table, copy = quoted(self._table), f"{self._table}__copy"
        others = self._execute(
            "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('index', 'trigger') AND sql IS NOT NULL",
            (self._table,),
        ).fetchall()
        types = {name: "" if name in columns else type_ for name, type_ in self._types.items()}
        self._create(copy, types)
        names = ", ".join(map(quoted, types))
        self._execute(f"INSERT INTO {quoted(copy)} ({names}) SELECT {names} FROM {table}")  # noqa: S608 - quoted
        self._execute(f"DROP TABLE {table}")
        self._execute(f"ALTER TABLE {quoted(copy)} RENAME TO {table}")
        for (definition,) in others:
            self._execute(definition)
        self._types = types

    # ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        assert self._database is not None
        return self._database.execute(statement, values)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction. After an error, the next one opens the file again: it may have been moved or repaired."""
        try:
            database = self._database = self._database or self._connect()
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")
        except InvalidItem:
            self._execute("ROLLBACK")
            raise
        except sqlite3.Error as error:
            self.close()
            self._version = -1
            raise SinkUnavailable(f"{self._path} cannot be written: {error}") from None
        except BaseException:
            self.close()
            self._version = -1
            raise

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _write_ahead(database)
            database.execute("PRAGMA synchronous = FULL")
        except BaseException:
            database.close()
            raise
        return database


class SqliteTableWriter(SqliteWriter):
    """Writes into a table that the user created. Only the columns that an item has are written; the table is never changed."""

    def __init__(self, destination: Destination) -> None:
        name = destination.options.get("table", "items")
        self._own = OwnTable(destination, quoted(name), Dialect(quoted, _TYPES, names_indexes=True, ignores_case=True))
        if not destination.path.exists():
            self._own.learn((), ())  # raises: there is no such table, and no file is created
        super().__init__(destination)

    def _check_table(self) -> None:
        self._own.learn(self._types, self._required)
        try:
            self._execute(f"EXPLAIN {self._own.insert(self._own.key, 'NULL')}")
        except sqlite3.OperationalError as error:
            raise (self._own.without_index() if "ON CONFLICT" in str(error) else error) from None

    def write(self, records: Sequence[Record]) -> None:
        with self._transaction() as database:
            self._learn()
            try:
                self._own.learn(self._types, self._required)
            except ConfigError as error:  # the table was dropped or changed since the start
                raise SinkUnavailable(str(error)) from None
            try:
                self._upsert_own(database, self._own.rows(records))
            except (sqlite3.IntegrityError, sqlite3.DataError) as error:
                raise self._own.refused(str(error)) from None

    def _upsert_own(self, database: sqlite3.Connection, rows: list[dict[str, Any]]) -> None:
        for columns, run in self._own.runs(rows):
            insert = self._own.insert(columns, "?")
            cells = [[_cell(row[name], self._types[name]) for name in columns] for row in run]
            if not self._own.must_exist(columns):
                database.executemany(insert, cells)
                continue
            update = self._own.update(columns, "?")
            for row, values in zip(run, cells, strict=True):
                key = [_cell(row[name], self._types[name]) for name in self._own.key]
                if not database.execute(update, [*values, *key]).rowcount:
                    database.execute(insert, values)

    def empty(self) -> None:
        """Leave the rows of the user alone."""


def _write_ahead(database: sqlite3.Connection) -> None:
    """Enable WAL mode. SQLite does not wait for the lock here, so this function retries."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            return


def open_writer(destination: Destination) -> SqliteWriter:
    return SqliteTableWriter(destination) if "key" in destination.options else SqliteWriter(destination)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cell(value: Any, type_: str) -> Any:
    if isinstance(value, list | dict) or (type_ == "TEXT" and value is not None):
        return as_text(value)
    return value


def _alters(type_: str, value: Any) -> bool:
    """Whether SQLite would convert *value* in a column of this type."""
    if type_ in ("TEXT", ""):
        return False
    if isinstance(value, str):
        return _looks_like_a_number(value)
    return type_ == "REAL" and type(value) is int and abs(value) > EXACT


def _looks_like_a_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
