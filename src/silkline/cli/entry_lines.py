"""Read entries from arguments, files and stdin, in bounded parts, whatever the size of the file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from silkline.core.entry import BadEntry
from silkline.core.request import Request
from silkline.errors import ConfigError
from silkline.worker.feeds.entry_file import EntryFormat, EntryReader, format_of, open_lines, open_parquet
from silkline.worker.feeds.feed_entry import read
from silkline.worker.feeds.lines import Peekable, naming

STDIN = "-"
PART = 1000
"""Entries that are read at once."""


class EntryLine(NamedTuple):
    """An entry and its source, such as a file and line."""

    item: str | Request | BadEntry
    data: bytes
    where: str

    @property
    def url(self) -> str:
        """What is shown of the entry: its URL, or its text."""
        if isinstance(self.item, Request):
            return self.item.url
        return self.item if isinstance(self.item, str) else self.data.decode(errors="surrogateescape")


class EntryLines:
    """The entries given as arguments, then those of each file. `read` and `size` are the progress in bytes."""

    def __init__(self, entries: Sequence[str], files: Sequence[str], kind: EntryFormat | None = None) -> None:
        self._entries = [entry for entry in entries if entry != STDIN]
        self._files = [*files, *([STDIN] if STDIN in entries else ())]
        self._kind = kind
        self._before = 0
        self._raw: BinaryIO | None = None
        self._formats = {file: self._format_of(file) for file in self._files}
        self.size = self._measure()

    def __bool__(self) -> bool:
        return bool(self._entries or self._files)

    def _format_of(self, file: str) -> EntryFormat | None:
        kind = self._kind or (None if file == STDIN else format_of(file))
        if kind == "parquet" and file == STDIN:
            raise ConfigError(
                "a Parquet file cannot be read from stdin, because reading starts at its end: use --file FILE"
            )
        return kind

    def _measure(self) -> int | None:
        """Return the total size of the files in bytes; None if one has no known size, or is not read in its order."""
        if STDIN in self._files or "parquet" in self._formats.values():
            return None
        stats = []
        for file in self._files:
            with naming(file):
                stats.append(Path(file).stat())
        return sum(stat.st_size for stat in stats) if all(stat.st_size for stat in stats) else None

    @property
    def read(self) -> int:
        return self._before + (self._raw.tell() if self._raw and self.size is not None else 0)

    def __iter__(self) -> Iterator[EntryLine]:
        for number, text in enumerate(self._entries, 1):
            data = text.encode(errors="surrogateescape")
            yield EntryLine(read(data), data, f"argument {number}")
        for file in self._files:
            name = "stdin" if file == STDIN else file
            where = "" if len(self._files) == 1 else f"{name} "
            with naming(name), self._open(file) as reader:
                while not reader.ended:
                    for item, data, place in reader.read(PART):
                        yield EntryLine(item, data, f"{where}{reader.unit} {place}")
                self._before, self._raw = self.read, None

    @contextmanager
    def _open(self, file: str) -> Iterator[EntryReader]:
        kind = self._formats[file]
        if file == STDIN:
            yield open_lines(cast("Peekable", sys.stdin.buffer), "stdin", kind)
        else:
            with Path(file).open("rb") as self._raw:
                yield open_parquet(file) if kind == "parquet" else open_lines(self._raw, file, kind)
