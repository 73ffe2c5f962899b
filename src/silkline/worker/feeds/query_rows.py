"""The rows of a query to PostgreSQL, read in small parts with a cursor of the server. This needs psycopg."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg

from silkline.errors import ConfigError
from silkline.worker.feeds.entry_file import Position, check_columns, row_entry
from silkline.worker.feeds.feed_entry import FeedEntry
from silkline.worker.feeds.query_name import QueryName

OPTIONS: dict[str, Any] = {"connect_timeout": 10, "application_name": "silkline"}


class QueryRows:
    """The rows of one pass. All methods block."""

    changed = False
    unit = "row"

    def __init__(self, name: QueryName) -> None:
        self._name = name
        self._rows = 0
        self.ended = False
        try:
            self._connection = psycopg.connect(name.url, **OPTIONS)
        except psycopg.Error as error:
            raise self._error(error) from None
        self._connection.read_only = True
        self._cursor = self._connection.cursor(name="silkline")
        try:
            self._cursor.execute(name.query.encode())
            self._columns = [column.name for column in self._cursor.description or ()]
            check_columns(self._columns, name.public)
        except psycopg.Error as error:
            self.close()
            raise self._error(error) from None
        except ConfigError:
            self.close()
            raise

    @property
    def position(self) -> Position:
        return Position(self._rows)

    def read(self, most: int) -> list[FeedEntry]:
        try:
            rows = self._cursor.fetchmany(most)
        except psycopg.Error as error:
            raise self._error(error) from None
        first = self._rows + 1
        self._rows += len(rows)
        self.ended = len(rows) < most
        return [row_entry(dict(zip(self._columns, row, strict=True)), number) for number, row in enumerate(rows, first)]

    def close(self) -> None:
        with suppress(psycopg.Error):  # the connection is lost, or the query has failed
            self._cursor.close()
        self._connection.close()

    def _error(self, error: psycopg.Error) -> ConfigError:
        return ConfigError(f"{self._name.public} cannot be read: {' '.join(str(error).split())[:300]}")
