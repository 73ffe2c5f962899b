"""From a spool and an older Parquet file to a new one. Streamed: neither has to fit into memory."""

from __future__ import annotations

import json
import mmap
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from silkline.core.errors import ConfigError
from silkline.sinks.columns import Kind, Layout, Names, as_text
from silkline.sinks.item import KEY, URL, Record

GROUP_ROWS = 50_000
GROUP_BYTES = 32 * 2**20
"""A row group has at most so many rows, and about so many bytes of JSON."""

_TYPES = {
    Kind.NULL: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.REAL: pa.float64(),
    Kind.NUMBER: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.JSON: pa.string(),
}
_KINDS = {
    pa.null(): Kind.NULL,
    pa.bool_(): Kind.BOOLEAN,
    pa.int64(): Kind.INTEGER,
    pa.float64(): Kind.REAL,
    pa.string(): Kind.TEXT,
}
_NAMES = Names(allows_nul=True)
_decoder = msgspec.json.Decoder(tuple[str, str, dict[str, Any]])


def check_table(path: Path) -> None:
    """Refuse a file into which we could not merge."""
    if not path.exists():
        return
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path} is there already, and cannot be read as Parquet: {error}") from None
    if KEY not in schema.names or any(field.type not in _KINDS for field in schema):
        raise ConfigError(f"{path} is there already, and was not made by Silkline; choose another name")


def merge(path: Path, spool: mmap.mmap, file: int) -> None:
    """Write to *file* what is in the table at *path*, if there is one, and in the *spool*; the last of each key."""
    old = pq.ParquetFile(path) if path.exists() else None
    try:
        known = {field.name: _KINDS[field.type] for field in old.schema_arrow} if old else {}
        layout = Layout({KEY: Kind.TEXT, URL: Kind.TEXT, **known}, _NAMES)
        with _latest(path.with_name(f".{path.name}.keys"), _survey(spool, layout)) as latest:
            schema = pa.schema([(name, _TYPES[kind]) for name, kind in layout.columns.items()])
            with os.fdopen(os.dup(file), "wb") as out, pq.ParquetWriter(out, schema, compression="zstd") as writer:
                for batch in old.iter_batches(GROUP_ROWS) if old else ():
                    writer.write_table(_carried_over(batch, latest, schema))
                for group in _groups(_survivors(spool, latest)):
                    writer.write_table(_table(group, layout, schema))
    finally:
        if old:
            old.close()


# ── the spool ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(spool: mmap.mmap, place: int) -> tuple[Record, int]:
    end = spool.find(b"\n", place) + 1 or len(spool)
    return Record(*_decoder.decode(spool[place:end])), end


def _survey(spool: mmap.mmap, layout: Layout) -> Iterator[tuple[str, int]]:
    """Each key and its place; the layout learns the columns on the way."""
    place = 0
    while place < len(spool):
        if spool[place] == ord("\n"):
            place += 1
            continue
        record, end = _read(spool, place)
        layout.cells(record.item)
        yield record.key, place
        place = end


def _survivors(spool: mmap.mmap, latest: sqlite3.Connection) -> Iterator[tuple[Record, int]]:
    """The last record of each key, with its size, in the order of the spool."""
    for (place,) in latest.execute("SELECT place FROM latest ORDER BY place"):
        record, end = _read(spool, place)
        yield record, end - place


@contextmanager
def _latest(path: Path, keys: Iterable[tuple[str, int]]) -> Iterator[sqlite3.Connection]:
    """Where the last record of each key is. On disk, because there may be more keys than memory."""
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA cache_size = -65536")
        database.execute("CREATE TABLE latest (key TEXT PRIMARY KEY, place INTEGER NOT NULL) WITHOUT ROWID")
        database.execute("BEGIN")
        database.executemany("INSERT OR REPLACE INTO latest VALUES (?, ?)", keys)
        database.execute("COMMIT")
        yield database
    except sqlite3.Error as error:
        raise OSError(f"{path.name}: {error}") from None
    finally:
        database.close()
        path.unlink(missing_ok=True)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _carried_over(batch: pa.RecordBatch, latest: sqlite3.Connection, schema: pa.Schema) -> pa.Table:
    """Rows of the older file whose keys have not come again, in the columns of the new one."""
    keys = batch.column(KEY).to_pylist()
    query = "SELECT key FROM latest WHERE key IN (SELECT value FROM json_each(?))"
    again = {key for (key,) in latest.execute(query, (json.dumps(keys),))}
    kept = batch.filter(pa.array([key not in again for key in keys], pa.bool_()))
    names = set(batch.schema.names)
    columns = [
        kept.column(field.name).cast(field.type, safe=False)
        if field.name in names
        else pa.nulls(kept.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _groups(records: Iterator[tuple[Record, int]]) -> Iterator[list[Record]]:
    group: list[Record] = []
    size = 0
    for record, length in records:
        group.append(record)
        size += length
        if len(group) >= GROUP_ROWS or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _table(group: list[Record], layout: Layout, schema: pa.Schema) -> pa.Table:
    rows = [layout.row(record) for record in group]
    columns = [pa.array([_cell(row.get(field.name), field.type) for row in rows], field.type) for field in schema]
    return pa.table(columns, schema=schema)


def _cell(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if type_ == pa.string():
        return as_text(value)
    return float(value) if type_ == pa.float64() else value
