"""A table in PostgreSQL. One row per key, even if a record is written several times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from silkline.errors import ConfigError, InvalidItem, SinkUnavailable
from silkline.sinks.columns import RESERVED, ColumnKind, ColumnNames, Layout, as_text
from silkline.sinks.destination import Destination
from silkline.sinks.own_table import Dialect, OwnTable
from silkline.sinks.sink import KEY, URL, Record

OPTIONS: dict[str, Any] = {
    "connect_timeout": 10,
    "application_name": "silkline",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
LOCK_SECONDS = 30
"""Seconds to wait for a lock on the table before the write fails and is retried later."""
_SYSTEM = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")  # columns that every table has
_NAMES = ColumnNames(longest=63, reserved=(*RESERVED, *_SYSTEM))
_TYPES = {
    ColumnKind.BOOLEAN: "boolean",
    ColumnKind.INTEGER: "bigint",
    ColumnKind.REAL: "double precision",
    ColumnKind.NUMBER: "numeric",
    ColumnKind.TEXT: "text",
    ColumnKind.JSON: "jsonb",
}
_KINDS = {type_: kind for kind, type_ in _TYPES.items()}
_WRONG_CLASSES = ("28", "3D", "3F", "42")  # error classes: login, database, schema, permissions and names
_WRONG_TEXTS = (  # a failed connection has no error code
    "password authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "permission denied",
    "invalid connection option",
    "invalid URI",
    "is not permitted to log in",
)
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.atthasdef OR a.attidentity <> '', a.attnotnull, a.attidentity = 'a'
FROM pg_attribute a WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum
"""
_HAS_INDEX = """
SELECT count(*) FROM pg_index i WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid AND i.indimmediate
AND i.indpred IS NULL AND %s = (SELECT array_agg(a.attname::text ORDER BY a.attname::text COLLATE "C") FROM pg_attribute a
WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) HAVING count(*) = i.indnkeyatts)
"""
"""ON CONFLICT cannot use a partial index, nor a constraint that is deferrable."""
_ALLOWED = """
SELECT CASE WHEN to_regclass(%(table)s) IS NOT NULL THEN has_table_privilege(to_regclass(%(table)s), 'INSERT')
ELSE has_schema_privilege(coalesce((parse_ident(%(table)s))[cardinality(parse_ident(%(table)s)) - 1], current_schema()),
'CREATE') END
"""


class PostgresWriter:
    """One transaction per batch.

    Values are sent as text and converted by the server, so a process that does not know the current type of a column
    yet can still write.
    """

    def __init__(self, destination: Destination) -> None:
        self._url = destination.url
        self._public = destination.public
        self._table = _table_name(destination)
        self._connection: psycopg.Connection[Any] | None = None
        self._types: dict[str, str] = {}
        self._filled: set[str] = set()
        """Columns with a default value, which may be left out."""
        self._required: set[str] = set()
        """Columns that a new row needs a value for."""
        self._set_by_server: set[str] = set()
        """Columns that cannot be written."""
        self._try_once()

    def _try_once(self) -> None:
        try:
            with self._transaction() as connection:
                self._learn(connection)
                self._check_table(connection)
                (is_allowed,) = connection.execute(_ALLOWED, {"table": self._table}).fetchone() or (True,)
                if not is_allowed:
                    raise ConfigError(
                        f"{self._public} cannot be written: its user may not write to the table {self._table}"
                    )
        except _Wrong as error:
            raise ConfigError(str(error)) from None

    def _check_table(self, connection: psycopg.Connection[Any]) -> None:  # noqa: ARG002 - for tables of the user
        if self._types and KEY not in self._types:
            raise ConfigError(
                f"the table {self._table} of {self._public} was not created by Silkline: it has no column {KEY}; "
                "use another table: ?table=NAME, or name the columns of its key: ?key=COLUMN"
            )

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, records: Sequence[Record]) -> None:
        records = sorted(records, key=lambda record: record.key)  # the same order in all processes prevents deadlocks
        try:
            self._write(records)
        except _Unfit:
            self._make_text_columns(records)
            self._write(records)

    def _write(self, records: Sequence[Record]) -> None:
        with self._transaction() as connection:
            rows, missing = self._lay_out(records)
            if missing:
                self._lock_table(connection)
                self._learn(connection)
                rows, missing = self._lay_out(records)
                self._change(connection, missing)
            self._upsert(connection, rows)

    def _lay_out(self, records: Sequence[Record]) -> tuple[list[dict[str, Any]], dict[str, ColumnKind]]:
        """Return the rows, and the columns that are missing or too narrow. Columns of other types are not changed."""
        known = {name: _KINDS.get(type_, ColumnKind.TEXT) for name, type_ in self._types.items()}
        layout = Layout(known, _NAMES)
        rows = [layout.row(record) for record in records]
        found = {name: kind for name, kind in layout.columns.items() if kind is not ColumnKind.NULL}
        missing: dict[str, ColumnKind] = {name: kind for name, kind in found.items() if known.get(name) is not kind}
        return rows, {name: ColumnKind.TEXT for name in (KEY, URL) if name not in known} | missing

    def _upsert(self, connection: psycopg.Connection[Any], rows: list[dict[str, Any]]) -> None:
        used = set().union(*rows)
        columns = [name for name in self._types if name in used or name not in self._filled]
        names = [escaped(quoted(name)) for name in columns]
        updates = ", ".join(f"{name} = excluded.{name}" for name in names if name != quoted(KEY))
        statement = (
            f"INSERT INTO {escaped(self._table)} ({', '.join(names)}) "  # noqa: S608 - quoted
            f"VALUES ({', '.join(['%s'] * len(names))}) ON CONFLICT ({quoted(KEY)}) DO UPDATE SET {updates}"
        )
        with connection.cursor() as cursor:
            cursor.executemany(statement.encode(), [[_cell(row.get(name)) for name in columns] for row in rows])

    def close(self) -> None:
        if self._connection:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    # ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _learn(self, connection: psycopg.Connection[Any]) -> None:
        found = connection.execute(_COLUMNS, (self._table,)).fetchall()
        self._types = {name: type_ for name, type_, *_ in found}
        self._filled = {name for name, _, is_filled, *_ in found if is_filled}
        self._required = {name for name, _, is_filled, is_required, _ in found if is_required and not is_filled}
        self._set_by_server = {name for name, *_, is_set in found if is_set}

    def _lock_table(self, connection: psycopg.Connection[Any]) -> None:
        """Prevent other processes from changing the columns until the end of the transaction."""
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('silkline'), hashtext(%s))", (self._table,))

    def _change(self, connection: psycopg.Connection[Any], columns: dict[str, ColumnKind]) -> None:
        if not self._types:
            self._types = {KEY: "text", URL: "text"}
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} "
                f"({quoted(KEY)} text PRIMARY KEY, {quoted(URL)} text)".encode()
            )
        changes = []
        for name, kind in columns.items():
            column, type_ = quoted(name), _TYPES[kind]
            if name not in self._types:
                changes.append(f"ADD COLUMN IF NOT EXISTS {column} {type_}")
            elif self._types[name] != type_:
                changes.append(f"ALTER COLUMN {column} TYPE {type_} USING {column}::{type_}")
            self._types[name] = type_
        if changes:
            connection.execute(f"ALTER TABLE {self._table} {', '.join(changes)}".encode())

    def _make_text_columns(self, records: Sequence[Record]) -> None:
        """Change the used columns of other types to text, after a value did not fit."""
        with self._transaction() as connection:
            self._lock_table(connection)
            self._learn(connection)
            rows, _ = self._lay_out(records)
            used = {name for row in rows for name, value in row.items() if value is not None}
            unknown = [name for name, type_ in self._types.items() if type_ not in _KINDS and name in used]
            self._change(connection, dict.fromkeys(unknown, ColumnKind.TEXT))

    # ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Run a transaction. After an error, the next one connects again and reads the columns again."""
        try:
            connection = self._connection = self._connection or self._connect()
            with connection.transaction():
                yield connection
        except psycopg.DataError as error:
            self._types = {}
            self.close()
            raise _Unfit(self._say(error)) from None
        except InvalidItem:
            raise  # rolled back; connection and columns are sound
        except (psycopg.Error, UnicodeError) as error:
            self._types = {}
            self.close()
            raise (_Wrong if _is_wrong(error) else SinkUnavailable)(self._say(error)) from None
        except BaseException:
            self._types = {}
            self.close()
            raise

    def _connect(self) -> psycopg.Connection[Any]:
        given = psycopg.conninfo.conninfo_to_dict(self._url)
        options = {name: value for name, value in OPTIONS.items() if name not in given}
        connection = psycopg.connect(self._url, autocommit=True, prepare_threshold=None, **options)
        try:
            connection.execute("SET synchronous_commit = on")
            connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'".encode())
            self._learn(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _say(self, error: Exception) -> str:
        """Return the error on one line, with passwords masked."""
        words = one_line(error)
        with suppress(psycopg.Error):
            password = psycopg.conninfo.conninfo_to_dict(self._url).get("password")
            words = words.replace(str(password), "***") if password else words
        return f"{self._public} cannot be written: {words}"


class PostgresTableWriter(PostgresWriter):
    """Writes into a table that the user created. Only the columns that an item has are written; the table is never changed."""

    def __init__(self, destination: Destination) -> None:
        table = _table_name(destination)
        self._own = OwnTable(destination, table, Dialect(quoted, _TYPES, escaped=escaped))
        super().__init__(destination)

    def _check_table(self, connection: psycopg.Connection[Any]) -> None:
        self._learn_own()
        key = sorted(self._own.key, key=str.encode)
        (has_index,) = connection.execute(_HAS_INDEX, (self._table, key)).fetchone() or (0,)
        if not has_index:
            raise self._own.without_index()
        statement = self._own.insert(self._own.key, "NULL")
        connection.execute(f"EXPLAIN {statement}".encode(), ())  # checks the permissions

    def _learn_own(self) -> None:
        self._own.learn([name for name in self._types if name not in self._set_by_server], self._required)

    def write(self, records: Sequence[Record]) -> None:
        with self._transaction() as connection:
            if not self._own.knows(records):
                self._learn(connection)
            try:
                self._learn_own()
            except ConfigError as error:  # the table was dropped or changed since the start
                raise SinkUnavailable(str(error)) from None
            with connection.cursor() as cursor:
                try:
                    self._upsert_own(cursor, self._own.rows(records))
                except (psycopg.DataError, psycopg.IntegrityError) as error:
                    raise self._own.refused(one_line(error)) from None

    def _upsert_own(self, cursor: psycopg.Cursor[Any], rows: Sequence[dict[str, Any]]) -> None:
        for columns, run in self._own.runs(rows):
            insert = self._own.insert(columns, "%s").encode()
            cells = [[self._own_cell(row[name], name) for name in columns] for row in run]
            if not self._own.must_exist(columns):
                cursor.executemany(insert, cells)
                continue
            update = self._own.update(columns, "%s").encode()
            for row, values in zip(run, cells, strict=True):
                cursor.execute(update, [*values, *(self._own_cell(row[name], name) for name in self._own.key)])
                if not cursor.rowcount:
                    cursor.execute(insert, values)

    def _own_cell(self, value: Any, column: str) -> str | None:
        if isinstance(value, list) and self._types[column].endswith("[]"):
            return _array(value)
        return _cell(value)


class _Wrong(SinkUnavailable):
    """An error that retries do not fix; at the start it becomes a `ConfigError`."""


class _Unfit(SinkUnavailable):
    """A value cannot be converted to the type of its column."""


def _is_wrong(error: Exception) -> bool:
    code = getattr(error, "sqlstate", None)
    if code:
        return str(code).startswith(_WRONG_CLASSES)
    return isinstance(error, psycopg.ProgrammingError) or any(text in str(error) for text in _WRONG_TEXTS)


def open_writer(destination: Destination) -> PostgresWriter:
    return PostgresTableWriter(destination) if "key" in destination.options else PostgresWriter(destination)


def _table_name(destination: Destination) -> str:
    table = destination.options.get("table", "items")
    if not all(table.split(".")) or "\0" in table:
        raise ConfigError(f"{table!r} is not a valid name of a PostgreSQL table")
    return ".".join(quoted(part) for part in table.split(".", 1))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def escaped(name: str) -> str:
    """Escape percent signs, which mark the parameters of a statement."""
    return name.replace("%", "%%")


def one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _array(values: list[Any]) -> str:
    """Return a list as the text of a PostgreSQL array."""
    parts = []
    for value in values:
        if isinstance(value, list):
            parts.append(_array(value))
        elif value is None:
            parts.append("NULL")
        else:
            parts.append('"' + str(_cell(value)).replace("\\", "\\\\").replace('"', '\\"') + '"')
    return "{" + ",".join(parts) + "}"


def _cell(value: Any) -> str | None:
    """Return a value as text without NUL, which PostgreSQL cannot store."""
    text = as_text(value)
    if text is None or isinstance(value, str):
        return text.replace("\0", "\ufffd") if text and "\0" in text else text
    return as_text(_without_nul(value)) if "\\u0000" in text else text


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_without_nul(one) for one in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(one) for name, one in value.items()}
    return value
