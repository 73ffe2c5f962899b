"""The rows of a Parquet file. This needs pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from silkline.errors import ConfigError
from silkline.worker.feeds.entry_file import Position, check_columns, row_entry
from silkline.worker.feeds.feed_entry import FeedEntry
from silkline.worker.feeds.lines import DamagedFile

ROWS = 4_000
"""Rows that are in memory at once."""
END = 256 * 1024
"""Bytes at the end of the file that tell it from another one of the same size."""


class ParquetReader:
    """An entry per row. Its columns are the fields of entries, also nested ones."""

    unit = "row"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._name = os.fspath(path)
        try:
            self._file = pq.ParquetFile(path)
        except pa.ArrowException as error:
            raise ConfigError(f"{self._name} is not a readable Parquet file: {_short(error)}") from None
        check_columns(self._file.schema_arrow.names, self._name)
        self._digest = self._fingerprint()
        self._rows = 0
        self._batch: list[dict[str, Any]] = []
        self._batches = self._read_batches(0)

    @property
    def position(self) -> Position:
        return Position(self._rows, self._digest)

    @property
    def ended(self) -> bool:
        return self._rows >= int(self._file.metadata.num_rows)

    def skip(self, line: int) -> None:
        self._rows = min(line, self._file.metadata.num_rows)
        self._batches = self._read_batches(self._rows)

    def read(self, most: int) -> list[FeedEntry]:
        entries: list[FeedEntry] = []
        while len(entries) < most and not self.ended:
            if not self._batch:
                if entries:
                    break  # an error of the next rows must not lose these
                self._batch = next(self._batches, [])[::-1]
                if not self._batch:
                    raise DamagedFile(f"{self._name} has fewer rows than it declares: {self._rows:,}")
            self._rows += 1
            entries.append(row_entry(self._batch.pop(), self._rows))
        return entries

    def _fingerprint(self) -> str:
        """Return a hash of the file's end, which has the places and sizes of all its parts."""
        with open(self._name, "rb") as file:  # noqa: PTH123 - what a path is, pyarrow has checked
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - END))
            return f"{size}-{xxhash.xxh3_64_hexdigest(file.read(END))}"

    def _read_batches(self, skipped: int) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows after the first *skipped* ones. Groups of rows that are skipped as a whole are not read."""
        groups = self._file.metadata.num_row_groups
        first = 0
        while first < groups and skipped >= self._file.metadata.row_group(first).num_rows:
            skipped -= self._file.metadata.row_group(first).num_rows
            first += 1
        try:
            for batch in self._file.iter_batches(ROWS, row_groups=range(first, groups)):
                if skipped < batch.num_rows:
                    yield _rows(batch.slice(skipped))
                skipped = max(0, skipped - batch.num_rows)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DamagedFile(f"{self._name} is damaged after row {self._rows:,}: {_short(error)}") from None


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = [_values(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a column. Times are read to the microsecond; those outside of the years 1 to 9999 are text."""
    if getattr(column.type, "unit", "") == "ns":
        tz = (column.type.tz,) if pa.types.is_timestamp(column.type) else ()
        kinds = {pa.types.is_timestamp: pa.timestamp, pa.types.is_time: pa.time64, pa.types.is_duration: pa.duration}
        [kind] = (make for matches, make in kinds.items() if matches(column.type))
        column = column.cast(kind("us", *tz), safe=False)
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError) as error:
        if isinstance(error, pa.ArrowException):
            raise
        return list(column.cast(pa.string()).to_pylist())


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
