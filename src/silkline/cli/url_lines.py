"""Read URLs from arguments, files and stdin, one line at a time, whatever the size of the file."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from silkline.errors import ConfigError

STDIN = "-"
LONGEST_LINE = 64 * 1024
"""Longest line that is read, in bytes; longer URLs are refused anyway."""


class UrlLine(NamedTuple):
    """A URL and its source, such as a file and line."""

    url: str
    where: str


class UrlLines:
    """The URLs given as arguments, then those of each file. `read` and `size` are the progress in bytes."""

    def __init__(self, urls: Sequence[str], files: Sequence[str]) -> None:
        self._urls = [url for url in urls if url != STDIN]
        self._files = [*files, *([STDIN] if STDIN in urls else ())]
        self._before = 0
        self._raw: BinaryIO | None = None
        self.size = self._measure()

    def __bool__(self) -> bool:
        return bool(self._urls or self._files)

    def _measure(self) -> int | None:
        """Return the total size of the files in bytes; None if one of them has no known size."""
        if STDIN in self._files:
            return None
        stats = []
        for file in self._files:
            with _file_errors(file):
                stats.append(Path(file).stat())
        return sum(stat.st_size for stat in stats) if all(stat.st_size for stat in stats) else None

    @property
    def read(self) -> int:
        return self._before + (self._raw.tell() if self._raw and self.size is not None else 0)

    def __iter__(self) -> Iterator[UrlLine]:
        for number, url in enumerate(self._urls, 1):
            yield UrlLine(url, f"argument {number}")
        for file in self._files:
            name = "" if len(self._files) == 1 else f"{'stdin' if file == STDIN else file} "
            with _file_errors(file), _open(file) as raw:
                self._raw = raw
                for number, text in _urls_of(raw):
                    yield UrlLine(text, f"{name}line {number}")
                self._before, self._raw = self.read, None


def _urls_of(raw: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield line numbers and URLs; blank lines and comments are skipped."""
    stream = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if _is_gzip(raw) else raw
    number = 0
    while line := stream.readline(LONGEST_LINE):
        number += 1
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        text = line.decode(errors="surrogateescape").strip()
        rest = line
        while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE)
        if text and not text.startswith("#"):
            yield number, text


def _is_gzip(raw: BinaryIO) -> bool:
    return cast("BufferedReader", raw).peek(2)[:2] == b"\x1f\x8b"


@contextmanager
def _open(file: str) -> Iterator[BinaryIO]:
    if file == STDIN:
        yield sys.stdin.buffer
    else:
        with Path(file).open("rb") as raw:
            yield raw


@contextmanager
def _file_errors(file: str) -> Iterator[None]:
    name = "stdin" if file == STDIN else file
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ConfigError(f"{name} is a damaged gzip file: {error}") from None
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from None
