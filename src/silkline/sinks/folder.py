"""An object per batch, in a folder of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from silkline.core.errors import ConfigError
from silkline.sinks.batches import Batches
from silkline.sinks.destination import Destination
from silkline.sinks.files import replacing, unavailable, write_all
from silkline.sinks.item import Record


class FolderWriter:
    """Each batch is a file that is there as a whole or not at all."""

    def __init__(self, destination: Destination) -> None:
        self._folder = Path(unquote(urlsplit(destination.url).path))
        self._batches = Batches(with_key=destination.with_key)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be written: {error.strerror}") from None

    def write(self, records: Sequence[Record]) -> None:
        with unavailable(self._folder), replacing(self._folder / self._batches.name()) as file:
            write_all(file, self._batches.pack(records))

    def close(self) -> None:
        """Nothing is kept open."""


def open_writer(destination: Destination) -> FolderWriter:
    return FolderWriter(destination)
