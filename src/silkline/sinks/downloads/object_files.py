"""Downloaded files in S3, Google Cloud Storage or Azure. An upload is complete, or there is no object."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import BinaryIO, cast

from silkline.errors import LocalFailure, SinkUnavailable
from silkline.sinks.destination import Destination
from silkline.sinks.downloads.store import FileStore
from silkline.sinks.objects import ObjectStore


class ObjectFiles(FileStore):
    """Stores files as objects. While they arrive, they are on disk without a name, so that nothing is left behind."""

    def __init__(self, destination: Destination) -> None:
        super().__init__()
        self._objects = ObjectStore(destination)

    @contextmanager
    def failures(self) -> Iterator[None]:
        try:
            yield
        except (OSError, SinkUnavailable) as error:
            where = f"downloaded files cannot be written to {tempfile.gettempdir()}: "
            text = f"{where}{error.strerror or error}" if isinstance(error, OSError) else str(error)
            raise LocalFailure(text, "files") from None

    def new_file(self) -> tuple[BinaryIO, Callable[[], None]]:
        file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - it is closed when it is stored
        return file, partial(_close, file)

    def put(self, file: BinaryIO, path: str, size: int) -> None:
        if not self._objects.has(path, size):
            file.seek(0)
            self._objects.put(path, file)


def _close(file: BinaryIO) -> None:
    with suppress(OSError):
        file.close()


def open_store(destination: Destination) -> ObjectFiles:
    return ObjectFiles(destination)
