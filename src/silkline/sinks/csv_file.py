"""A CSV file with a header. At least once: after a crash, a row may be duplicated."""

from __future__ import annotations

import csv
import io
import mmap
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from silkline.sinks.columns import MORE, ColumnKind, ColumnNames, Layout, as_text
from silkline.sinks.destination import Destination
from silkline.sinks.files import SharedFile
from silkline.sinks.sink import KEY, URL, Record

_QUOTED = re.compile(rb'"[^"]*"')
_END = re.compile(rb"\r?\n\Z")
_COPY_BYTES = 1 << 20
FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""Characters with which a formula can begin in a spreadsheet."""


class CsvWriter:
    """Appends rows. When a new column appears, the file is rewritten with a longer header."""

    def __init__(self, destination: Destination) -> None:
        self._safe = destination.flag("safe")
        self._text = safe_text if self._safe else as_text
        self._own = (KEY, URL) if destination.with_key else ()
        self._names = ColumnNames(allows_nul=True, reserved=(*self._own, MORE))
        self._header: list[str] = []
        self._file = SharedFile(destination.path, scan_rows, lines=True)

    def write(self, records: Sequence[Record]) -> None:
        with self._file.turn():
            if self._file.is_new_to_us or not self._file.size:
                self._header = self._read_header()
            layout = Layout(dict.fromkeys([*self._header, *self._own], ColumnKind.NULL), self._names)
            records = self._with_safe_names(records)
            rows = [layout.row(record) if self._own else layout.cells(record.item) for record in records]
            if len(layout.columns) > len(self._header):
                self._grow(list(layout.columns))
            if self._header:
                self._file.append(text_of([self._text(row.get(column)) for column in self._header] for row in rows))

    def _with_safe_names(self, records: Sequence[Record]) -> Sequence[Record]:
        """Escape column names too, which are cells of the header."""
        if not self._safe or not any(name.startswith(FORMULA) for record in records for name in record.item):
            return records
        return [
            msgspec.structs.replace(record, item={safe(name): value for name, value in record.item.items()})
            for record in records
        ]

    def _read_header(self) -> list[str]:
        with self._file.mapped() as view:
            if view is None:
                return []
            start, end, _ = next(scan_rows(view, 0))
            line = view[start:end].decode("utf-8-sig", "replace")
        return next(csv.reader(io.StringIO(line, newline="")), [])

    def _grow(self, header: list[str]) -> None:
        """Add columns to the file. Cells are not parsed: each row gets one comma per new column."""
        if self._header:
            with self._file.mapped() as view:
                self._file.replace(_widened(view, header, len(header) - len(self._header)))
        else:
            self._file.append(text_of([header]))
        self._header = header

    def empty(self) -> None:
        with self._file.turn():
            self._file.replace([])

    def close(self) -> None:
        self._file.close()


def safe(text: str) -> str:
    """Prefix text that looks like a formula with an apostrophe, as OWASP recommends."""
    return f"'{text}" if text.startswith(FORMULA) else text


def safe_text(value: Any) -> str | None:
    """Escape strings; format other values as `as_text` does, so that negative numbers stay numbers."""
    return safe(value) if isinstance(value, str) else as_text(value)


def open_writer(destination: Destination) -> CsvWriter:
    return CsvWriter(destination)


def text_of(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def scan_rows(view: mmap.mmap, start: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the rows. Quoted cells may contain line breaks. A row is whole if it ends with a line break and has as many cells as the header."""
    width = _width(view[: _end_of_row(view, 0)])
    while start < len(view):
        end = _end_of_row(view, start)
        row = view[start:end]
        yield start, end, row.endswith(b"\n") and row.count(b'"') % 2 == 0 and (start == 0 or _width(row) == width)
        start = end


def _end_of_row(view: mmap.mmap, start: int) -> int:
    end, quotes = start, 0
    while end < len(view):
        line_end = view.find(b"\n", end) + 1 or len(view)
        quotes += view[end:line_end].count(b'"')
        end = line_end
        if quotes % 2 == 0:
            break
    return end


def _width(row: bytes) -> int:
    return _QUOTED.sub(b"", row).count(b",") + 1


def _widened(view: mmap.mmap | None, header: list[str], added: int) -> Iterator[bytes]:
    if view is None:
        return
    pieces = bytearray(text_of([header]))
    for start, end, _ in scan_rows(view, _end_of_row(view, 0)):
        pieces += _END.sub(b"", view[start:end]) + b"," * added + b"\r\n"
        if len(pieces) > _COPY_BYTES:
            yield bytes(pieces)
            pieces.clear()
    yield bytes(pieces)
