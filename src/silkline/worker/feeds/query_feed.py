"""QueryFeed: the rows of a query to a database, read once from the first to the last."""

from __future__ import annotations

import importlib
import time
from typing import Any, cast

from silkline.errors import ConfigError
from silkline.frontier.frontier import Frontier
from silkline.worker.feeds.file_feed import TTL, FileFeed, FilePosition, OpenSource
from silkline.worker.feeds.query_name import QueryName, read_query_name
from silkline.worker.feeds.sitemap_feed import TURN


class QueryFeed(FileFeed):
    """As a file, except that it has no position: rows have no order. A run that was killed reads it from its first row."""

    def __init__(self, name: str, frontier: Frontier, *, ttl: float = TTL) -> None:
        self._query = read_query_name(name)
        super().__init__(self._query.public, frontier, ttl=ttl)

    def where(self, entry: Any) -> str:
        return f"row={entry.place}"

    def _is_here(self) -> bool:
        return True

    def _check(self) -> None:
        """Opening it shows whether it can be read."""

    def _open(self, _stored: FilePosition) -> OpenSource:
        return open_query(self._query)

    def _was_just_read(self, stored: FilePosition) -> bool:
        """Return whether it was read to its end within the last hour: then another worker of this run, or a run before, has done so."""
        return stored.ended and abs(time.time() - stored.at) < TURN


def open_query(name: QueryName) -> OpenSource:
    """Start a query. Raises `ConfigError` if it cannot be read, or without psycopg."""
    try:
        module: Any = importlib.import_module("silkline.worker.feeds.query_rows")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("silkline"):
            raise
        raise ConfigError(f"{name.public} needs the package {error.name}: pip install 'silkline[postgres]'") from None
    return cast("OpenSource", module.QueryRows(name))
