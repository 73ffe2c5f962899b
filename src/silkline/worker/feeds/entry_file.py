"""Files of entries: one URL or JSON object per line, CSV, or Parquet.

``silkline enqueue`` and the feeds of workers read them here. `core.entry` reads the single entries.
"""

from __future__ import annotations

import csv
import importlib
import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast, get_args

import msgspec

from silkline.core.entry import COLUMNS, META, BadEntry, read_row, unknown_columns
from silkline.core.request import Request
from silkline.errors import ConfigError
from silkline.frontier.user_keys.inbox import MOST_BYTES
from silkline.worker.feeds.feed_entry import MOST_STORED, FeedEntry, read
from silkline.worker.feeds.lines import BOM, LineReader, LongLine, Peekable, decompressed

EntryFormat = Literal["txt", "csv", "jsonl", "parquet"]
FORMATS: tuple[str, ...] = get_args(EntryFormat)
_SUFFIXES: dict[str, EntryFormat] = {
    ".txt": "txt", ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
}  # fmt: skip
_PACKED = (".gz", ".zst")
MOST_LINES = 200_000
"""Lines that one `read` takes at most, also if all of them are blank."""


class Position(NamedTuple):
    """Where a reader is in a file."""

    line: int = 0
    """Lines that were read, or rows, for Parquet."""
    digest: str = ""
    """A hash of these lines: if the file has changed there, it has another one."""


class EntryReader(Protocol):
    """Reads the entries of one file, in order. The place of each entry is its line."""

    unit: str
    """What the place of an entry counts: line or row."""

    @property
    def position(self) -> Position: ...

    @property
    def ended(self) -> bool: ...

    def skip(self, line: int) -> None:
        """Continue after a line, before anything is read. Compare the `position` then: the file may have changed."""

    def read(self, most: int) -> list[FeedEntry]:
        """Return up to *most* entries. It may return none before the end: see `ended`."""


def format_of(name: str) -> EntryFormat | None:
    """Return the format that the name of a file says, such as ``urls.csv.gz``; None if it says none."""
    path = Path(name.lower())
    packed = path.suffix in _PACKED
    found = _SUFFIXES.get(Path(path.stem).suffix if packed else path.suffix)
    if packed and found == "parquet":
        raise ConfigError(f"{name}: Parquet files are already compressed; remove the suffix {path.suffix}")
    return found


def open_lines(stream: Peekable, name: str, kind: EntryFormat | None) -> EntryReader:
    """Return the entries of a text file. Without a format, it is CSV if its first line is clearly a header."""
    lines = LineReader(decompressed(stream))
    if kind is None:
        kind = "csv" if _is_header(lines.peek()) else "txt"
    return CsvReader(lines, name) if kind == "csv" else LinesReader(lines, comments=kind == "txt")


def open_parquet(path: str | os.PathLike[str]) -> EntryReader:
    """Return the rows of a Parquet file. Raises `ConfigError` without pyarrow."""
    try:
        module: Any = importlib.import_module("silkline.worker.feeds.parquet_file")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("silkline"):
            raise
        package = str(error.name).partition(".")[0]
        raise ConfigError(f"{path} needs the package {package}: pip install 'silkline[parquet]'") from None
    return cast("EntryReader", module.ParquetReader(path))


def check_columns(names: Sequence[str], name: str) -> None:
    """Raise `ConfigError` unless the columns of a file are those of entries."""
    shown = ", ".join(names)[:300]
    if not any(names):
        raise ConfigError(f'{name} has no columns: its first line must name them, and one of them must be "url"')
    if "url" not in names:
        raise ConfigError(f'{name} has no column "url"; its columns are: {shown}')
    if unknown := unknown_columns(names):
        raise ConfigError(
            f'{name} has a column "{unknown[0][:50]}", which is no field of an entry; a column {META}{unknown[0][:50]} becomes a '
            f"value of meta, and the fields are {', '.join(COLUMNS)}"
        )
    if twice := [one for at, one in enumerate(names) if one in names[:at]]:
        raise ConfigError(f'{name} has the column "{twice[0][:50]}" twice; its columns are: {shown}')


# ── lines ──


class TextReader:
    """Where a reader of a text file is."""

    unit = "line"

    def __init__(self, lines: LineReader) -> None:
        self._lines = lines

    @property
    def position(self) -> Position:
        return Position(self._lines.number, self._lines.digest)

    @property
    def ended(self) -> bool:
        return self._lines.ended

    def skip(self, line: int) -> None:
        self._lines.skip(line)


class LinesReader(TextReader):
    """An entry per line: a URL or a JSON object. Blank lines are skipped, and lines that start with # are comments."""

    def __init__(self, lines: LineReader, *, comments: bool) -> None:
        super().__init__(lines)
        self._skipped = (b"", b"#") if comments else (b"",)

    def read(self, most: int) -> list[FeedEntry]:
        entries: list[FeedEntry] = []
        for _ in range(max(1, MOST_LINES // most)):
            first = self._lines.number + 1
            wanted = most - len(entries)
            lines = self._lines.take(wanted)
            for number, line in enumerate(lines, first):
                text = line.strip() if number > 1 else line.removeprefix(BOM).strip()
                if text[:1] not in self._skipped:
                    entries.append(
                        long_entry(line, number) if type(line) is LongLine else FeedEntry(read(text), text, number)
                    )
            if len(lines) < wanted or len(entries) == most:
                break  # the end, or an error, which the next call raises
        return entries


def long_entry(line: LongLine, number: int) -> FeedEntry:
    error = BadEntry(f"it has {line.size:,} bytes, the limit is {MOST_BYTES:,}")
    return FeedEntry(error, bytes(line), number)


# ── CSV ──

MISSING = "(missing)"
"""Stands for a column or a value that a record does not have. It is no field, so that the record cannot be revived as it is."""
DELIMITERS = (",", ";", "\t")


class CsvReader(TextReader):
    """An entry per record of a CSV file, whose first line names the columns. The delimiter is that of the first line."""

    def __init__(self, lines: LineReader, name: str) -> None:
        super().__init__(lines)
        head = lines.take(1)
        self._delimiter, self._names = _header(head[0] if head else b"")
        check_columns(self._names, name)
        self._url = self._names.index("url")

    def read(self, most: int) -> list[FeedEntry]:
        entries: list[FeedEntry] = []
        last = self._lines.number + MOST_LINES
        while len(entries) < most and self._lines.number < last and (self._lines.has_more or not entries):
            record, count = self._record()
            if not count:
                break
            number = self._lines.number + 1
            self._lines.take(count)
            if type(record) is LongLine:
                entries.append(long_entry(record, number))
            elif record.strip():
                entries.append(self._read(record, number))
        return entries

    def _record(self) -> tuple[bytes, int]:
        """Return the next record and its lines. If a quote is not closed, the record is its first line, and the others follow."""
        first = self._lines.peek()
        if first is None:
            return b"", 0
        if type(first) is LongLine or first.count(b'"') % 2 == 0:
            return first, 1
        parts, size = [first], len(first)
        while size <= MOST_BYTES:
            line = self._lines.peek(len(parts))
            if line is None or type(line) is LongLine:
                break
            parts.append(line)
            size += len(line) + 1
            if line.count(b'"') % 2:
                return b"\n".join(parts), len(parts)
        return first, 1

    def _read(self, record: bytes, number: int) -> FeedEntry:
        try:
            cells = next(csv.reader((record.decode(),), delimiter=self._delimiter, strict=True))
        except UnicodeDecodeError:
            return FeedEntry(BadEntry("it is not valid UTF-8"), record[:MOST_STORED], number)
        except csv.Error as error:
            shown = msgspec.json.encode(["(not CSV)", record[:MOST_STORED].decode()])
            return FeedEntry(BadEntry(f"it is not valid CSV: {error}"), shown, number)
        names = self._names
        if len(cells) != len(names):
            bad = BadEntry(f"it has {len(cells)} values, but the file has {len(names)} columns")
            pairs = [part for pair in zip_longest(names, cells, fillvalue=MISSING) for part in pair]
            return FeedEntry(bad, msgspec.json.encode([*pairs, MISSING, MISSING]), number)
        url = cells[self._url].strip()
        if url and sum(map(len, cells)) == len(cells[self._url]):
            return FeedEntry(url, url.encode(), number)
        return row_entry(dict(zip(names, cells, strict=True)), number)


def row_entry(row: dict[str, Any], number: int) -> FeedEntry:
    """Return the entry of a row of columns. It is stored as names and values, which `read_entry` reads."""
    item: str | Request | BadEntry
    try:
        item = read_row(row)
    except BadEntry as error:
        item = error
    pairs = [part for name, value in row.items() if value not in (None, "") for part in (name, _text(value))]
    return FeedEntry(item, msgspec.json.encode(pairs), number)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    with suppress(TypeError, msgspec.MsgspecError):
        return msgspec.json.encode(value).decode()
    return str(value)


def _header(line: bytes) -> tuple[str, list[str]]:
    """Return the delimiter and the columns of the first line."""
    text = line.removeprefix(BOM).decode(errors="replace").strip("\r\n")
    names: list[str] = []
    for delimiter in DELIMITERS:
        try:
            found = [name.strip() for name in next(csv.reader((text,), delimiter=delimiter, strict=True), [])]
        except csv.Error:
            continue
        names = names or found
        if "url" in found:
            return delimiter, found
    return ",", names


def _is_header(line: bytes | None) -> bool:
    """Return whether the first line of a file can only be the header of a CSV file."""
    if line is None or type(line) is LongLine:
        return False
    names = _header(line)[1]
    return len(names) > 1 and "url" in names and not unknown_columns(names)
