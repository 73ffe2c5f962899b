"""A directory for an embedded server that nobody needs afterwards."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from silkline.frontier import keeper


@contextmanager
def temporary_server(prefix: str) -> Iterator[Path]:
    """The directory; at the end it goes, once the server in it has stopped."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        _await_stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _await_stop(folder: Path) -> None:
    """The server stops by itself when its last participant has left; its lock is free when it is gone."""
    for name in (keeper.KEEPER, keeper.SERVER):
        if (folder / name).exists():
            descriptor = keeper.open_lock(folder / name)
            try:
                keeper.wait_for(lambda lock=descriptor: keeper.try_lock(lock, fcntl.LOCK_EX), keeper.STOP_SECONDS)  # type: ignore[misc]
            finally:
                os.close(descriptor)
