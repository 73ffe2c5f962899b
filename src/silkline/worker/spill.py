"""Where the links of a worker process wait while the crawl is full.

All workers of one machine that are started in the same way find the same file, and so does the next run.
"""

from __future__ import annotations

import os
from pathlib import Path

from silkline.frontier.overflow import LateOverflow, Overflow, SqliteOverflow
from silkline.frontier.wishes import embedded_in

NONE = "none"
"""Said instead of a path by those who want no overflow."""
NAME = "overflow.db"


def place_of(wish: str | None, redis: str | None, file: Path | None = None) -> Path | None:
    """The path that is wished for, or else one with the data of the embedded server, or else one beside the crawl's *file*."""
    if wish == NONE:
        return None
    if wish:
        return Path(wish).expanduser()
    directory = embedded_in(redis)
    if directory:
        return Path(directory).expanduser() / NAME
    if file and os.access(file.resolve().parent, os.W_OK):
        return file.with_suffix(f".{NAME}")
    return None


def overflow_of(wish: str | None, redis: str | None, file: Path | None = None) -> Overflow | None:
    """An overflow at that place; what is wrong with a path that was wished for is said at once."""
    place = place_of(wish, redis, file)
    if place is None:
        return None
    return SqliteOverflow(place) if wish else LateOverflow(place)
