"""A temporary directory for an embedded server."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from silkline.frontier.embedded import supervisor


@contextmanager
def temporary_server(prefix: str) -> Iterator[Path]:
    """Yield a temporary directory; delete it after the server in it has stopped."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        _await_stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _await_stop(folder: Path) -> None:
    """Wait for the locks of the server, which stops by itself when its last client disconnects."""
    for name in (supervisor.SUPERVISOR, supervisor.SERVER):
        if (folder / name).exists():
            descriptor = supervisor.open_lock(folder / name)
            try:
                supervisor.wait_for(partial(supervisor.try_lock, descriptor, fcntl.LOCK_EX), supervisor.STOP_SECONDS)
            finally:
                os.close(descriptor)
