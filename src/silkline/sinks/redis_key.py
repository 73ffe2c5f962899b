"""A list or stream on Redis. At least once; durability depends on the persistence of the server."""

from __future__ import annotations

from collections.abc import Sequence

from silkline.errors import ConfigError, SinkUnavailable, StoreUnavailable
from silkline.frontier.user_keys.appender import KeyAppender
from silkline.sinks.destination import Destination
from silkline.sinks.sink import KEY, URL, Record, line_of


class RedisWriter:
    """Appends JSON lines to a list, or entries with the fields ``_key``, ``_url`` and ``item`` to a stream."""

    def __init__(self, destination: Destination) -> None:
        self._key = destination.url
        self._with_key = destination.with_key
        kind = destination.options.get("type", "list")
        if kind not in ("list", "stream"):
            raise ConfigError(f"the type of redis:{self._key} must be list or stream, got {kind!r}")
        if destination.server is None:
            raise ConfigError(f"redis:{self._key} needs the address of a server; pass redis=URL")
        self._is_stream = kind == "stream"
        self._longest = _longest(destination)
        try:
            self._appender = KeyAppender.open(destination.server)
        except StoreUnavailable as error:
            raise SinkUnavailable(str(error)) from None
        self._check_type(kind)

    def _check_type(self, kind: str) -> None:
        try:
            found = self._appender.type_of(self._key)
        except StoreUnavailable as error:
            self._appender.close()
            raise SinkUnavailable(str(error)) from None
        except BaseException:
            self._appender.close()
            raise
        if found not in ("none", kind):
            self._appender.close()
            raise ConfigError(f"the Redis key {self._key} already exists and is a {found}, not a {kind}")

    def write(self, records: Sequence[Record]) -> None:
        try:
            if self._is_stream:
                self._appender.add(self._key, [self._entry(record) for record in records], self._longest)
            else:
                lines = [line_of(record, with_key=self._with_key)[:-1] for record in records]
                self._appender.push(self._key, lines, self._longest)
        except (StoreUnavailable, ConfigError) as error:
            raise SinkUnavailable(str(error)) from None

    def _entry(self, record: Record) -> dict[str, str | bytes]:
        return {KEY: record.key, URL: record.url, "item": line_of(record, with_key=False)[:-1]}

    def close(self) -> None:
        self._appender.close()


def _longest(destination: Destination) -> int | None:
    """Return the option maxlen: how many items are kept."""
    given = destination.options.get("maxlen")
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 19 and int(given)):
        raise ConfigError(
            f"the option maxlen of redis:{destination.url} must be a number of items above 0, got {given!r}"
        )
    return int(given)


def open_writer(destination: Destination) -> RedisWriter:
    return RedisWriter(destination)
