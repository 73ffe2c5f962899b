"""The marker: which page a worker is handling, in a file that outlives the worker.

A process in which code holds the GIL, or that was killed, cannot report anything. From this file, the parent process reads
which page was being handled, and where the interpreter was when the process crashed.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import re
import tempfile
from pathlib import PurePath
from typing import NamedTuple

from silkline.core.lease import Lease

SIZE = 4096
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


class MarkedPage(NamedTuple):
    """The page that was being handled."""

    shard: int
    token: str
    url: str


class PageMarker:
    """Call it with a lease before its handler runs, and with None afterwards."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, SIZE)
        if not faulthandler.is_enabled():
            os.lseek(descriptor, SIZE, os.SEEK_SET)
            faulthandler.enable(descriptor, all_threads=False)

    def __call__(self, lease: Lease | None) -> None:
        self._map[0] = 0
        if lease is not None:
            text = f"{lease.shard} {lease.wire_token} {lease.url}\n".encode()[: SIZE - 1]
            self._map[1 : 1 + len(text)] = text
            self._map[0] = 1


def make_file() -> int:
    """Return the descriptor of a file for a marker. The file is deleted when its last descriptor is closed."""
    with tempfile.TemporaryFile() as file:
        file.truncate(SIZE)
        return os.dup(file.fileno())


def read_page(descriptor: int) -> MarkedPage | None:
    """Return the page that was being handled; None if there was none."""
    text = os.pread(descriptor, SIZE, 0)
    if text[:1] != b"\1":
        return None
    shard, token, url = text[1:].partition(b"\n")[0].decode(errors="replace").split(" ", 2)
    return MarkedPage(int(shard), token, url)


def read_place(descriptor: int) -> str:
    """Return where the handler was when the process crashed, as " (books.py:14)"; "" if that is unknown."""
    frames = _FRAME.findall(os.pread(descriptor, 16 * SIZE, SIZE).decode(errors="replace"))
    places = [(file, line) for file, line in frames if not file.startswith("<frozen")]
    caller = next((i for i, (file, _) in enumerate(places) if "/silkline/" in file and "handlers.py" in file), 0)
    if not places:
        return ""
    file, line = places[max(0, caller - 1)]
    return f" ({PurePath(file).name}:{line})"
