"""One file per batch in a local directory."""

from __future__ import annotations

import gzip
import itertools
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from silkline.errors import ConfigError
from silkline.sinks.destination import Destination
from silkline.sinks.files import make_directory, replacing, unavailable, write_all
from silkline.sinks.sink import Record, line_of


class Batches:
    """Unique names of batches, ``TIME-PROCESS-NUMBER.jsonl.gz``, which sort by time."""

    def __init__(self, *, with_key: bool) -> None:
        self._with_key = with_key
        self._process = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._numbers = itertools.count(1)

    def name(self) -> str:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        return f"{moment}-{self._process}-{next(self._numbers)}.jsonl.gz"

    def pack(self, records: Sequence[Record]) -> bytes:
        return gzip.compress(b"".join(line_of(record, with_key=self._with_key) for record in records), 6)


class FolderWriter:
    """Writes each batch atomically as one file."""

    def __init__(self, destination: Destination) -> None:
        self._folder = Path(unquote(urlsplit(destination.url).path))
        self._batches = Batches(with_key=destination.with_key)
        try:
            make_directory(self._folder, quietly=True)
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be written: {error.strerror}") from None

    def write(self, records: Sequence[Record]) -> None:
        with unavailable(self._folder), replacing(self._folder / self._batches.name()) as file:
            write_all(file, self._batches.pack(records))

    def close(self) -> None:
        """Do nothing: no file is kept open."""


def open_writer(destination: Destination) -> FolderWriter:
    return FolderWriter(destination)
