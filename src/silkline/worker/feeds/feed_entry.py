"""An entry of a feed or a file, as it was read: its request, or the reason that it has none."""

from __future__ import annotations

from typing import NamedTuple

from silkline.core.entry import BadEntry, read_entry
from silkline.core.request import Request

MOST_STORED = 48 * 1024
"""Bytes of a bad entry that are stored in its dead letter; a whole request may have 64 KiB."""


class FeedEntry(NamedTuple):
    """One entry, read."""

    item: str | Request | BadEntry
    data: bytes
    """The entry as `read_entry` reads it; for a dead letter."""
    place: object
    """Where it is in the feed; only the feed itself uses this. For a file, its line."""


def read(data: bytes) -> str | Request | BadEntry:
    """Return the request of an entry, or the error that it has none."""
    try:
        return read_entry(data)
    except BadEntry as error:
        return error
