"""A Parquet file. Items are stored in a spool file next to it and merged into it at the end: one row per key."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from silkline.errors import ConfigError, SinkUnavailable
from silkline.sinks.columns import ColumnKind, ColumnNames, Layout, as_text
from silkline.sinks.destination import Destination
from silkline.sinks.files import SharedFile, inode_of, replacing, sync_directory
from silkline.sinks.jsonl import scan_lines
from silkline.sinks.sink import KEY, URL, Record


class ParquetWriter:
    """Writes to the spool. `finish` merges it, and so does `close` if no other process has the sink open.

    If a merge is interrupted, the spool is kept and the next merge starts over.
    """

    def __init__(self, destination: Destination) -> None:
        self._path = destination.path
        check_table(self._path)
        self._spool = SharedFile(self._path.with_name(f"{self._path.name}.spool"), scan_lines, lines=True)
        self._writers = self._path.with_name(f".{self._path.name}.writers")
        self._presence = self._enter()

    def write(self, records: Sequence[Record]) -> None:
        data = b"".join(msgspec.json.encode((record.key, record.url, record.item)) + b"\n" for record in records)
        with self._spool.turn():
            self._spool.append(data)

    def finish(self) -> None:
        """Merge the spool. Writes of other processes fail in the meantime and are retried."""
        with self._arrow_faults(), self._spool.turn():
            with self._spool.mapped() as view:
                if view is not None:
                    with replacing(self._path) as file:
                        merge(self._path, view, file)
            self._spool.remove()

    def empty(self) -> None:
        with self._spool.turn():
            self._path.unlink(missing_ok=True)
            sync_directory(self._path.parent)
            self._spool.replace([])

    @contextmanager
    def _arrow_faults(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, msgspec.MsgspecError) as error:
            raise SinkUnavailable(f"{self._path} cannot be written: {error}") from None

    def close(self) -> None:
        try:
            if self._leave():
                self.finish()
        finally:
            self._spool.close()

    # ── open writers ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _enter(self) -> int:
        """Take a shared lock; the system releases it if the process is killed."""
        while True:
            try:
                presence = os.open(self._writers, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise ConfigError(f"{self._path} cannot be written: {error.strerror}") from None
            fcntl.flock(presence, fcntl.LOCK_SH)
            if inode_of(self._writers) == os.fstat(presence).st_ino:
                return presence
            os.close(presence)

    def _leave(self) -> bool:
        """Release the lock; return whether this was the last writer. Each writer releases before it checks, so one of two always is."""
        os.close(self._presence)
        presence = os.open(self._writers, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(presence, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._writers.unlink(missing_ok=True)
        except BlockingIOError:
            return False
        finally:
            os.close(presence)
        return True


def open_writer(destination: Destination) -> ParquetWriter:
    return ParquetWriter(destination)


GROUP_ROWS = 50_000
GROUP_BYTES = 32 * 2**20
"""Maximum rows of a row group, and its approximate maximum of JSON bytes."""

_TYPES = {
    ColumnKind.NULL: pa.null(),
    ColumnKind.BOOLEAN: pa.bool_(),
    ColumnKind.INTEGER: pa.int64(),
    ColumnKind.REAL: pa.float64(),
    ColumnKind.NUMBER: pa.float64(),
    ColumnKind.TEXT: pa.string(),
    ColumnKind.JSON: pa.string(),
}
_KINDS = {
    pa.null(): ColumnKind.NULL,
    pa.bool_(): ColumnKind.BOOLEAN,
    pa.int64(): ColumnKind.INTEGER,
    pa.float64(): ColumnKind.REAL,
    pa.string(): ColumnKind.TEXT,
}
_NAMES = ColumnNames(allows_nul=True)
_decoder = msgspec.json.Decoder(tuple[str, str, dict[str, Any]])


def check_table(path: Path) -> None:
    """Raise `ConfigError` for an existing file that cannot be merged into."""
    if not path.exists():
        return
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path} already exists and cannot be read as Parquet: {error}") from None
    if KEY not in schema.names or any(field.type not in _KINDS for field in schema):
        raise ConfigError(f"{path} already exists and was not written by Silkline; use another name")


def merge(path: Path, spool: mmap.mmap, file: int) -> None:
    """Write the rows of the table at *path*, if it exists, and of the *spool* to *file*; the last row of each key."""
    old = pq.ParquetFile(path) if path.exists() else None
    try:
        known = {field.name: _KINDS[field.type] for field in old.schema_arrow} if old else {}
        layout = Layout({KEY: ColumnKind.TEXT, URL: ColumnKind.TEXT, **known}, _NAMES)
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
    """Yield each key and its offset; collect the columns in *layout*."""
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
    """Yield the last record of each key and its size, in the order of the spool."""
    for (place,) in latest.execute("SELECT place FROM latest ORDER BY place"):
        record, end = _read(spool, place)
        yield record, end - place


@contextmanager
def _latest(path: Path, keys: Iterable[tuple[str, int]]) -> Iterator[sqlite3.Connection]:
    """Yield a table with the offset of the last record of each key. It is on disk, because the keys may not fit in memory."""
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
    """Return the rows of the old file whose keys are not in the spool, with the new columns."""
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
