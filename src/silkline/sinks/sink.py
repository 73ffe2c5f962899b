"""Sink: where items end. A small protocol, and a door that opens one by the shape of its name."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Protocol

from silkline.core.errors import ConfigError
from silkline.sinks.destination import Destination, read_out
from silkline.sinks.item import Record, record_of
from silkline.sinks.threaded import ThreadedSink, Writer

__all__ = ["Record", "Sink", "open_sink", "record_of"]

_MODULES = {
    "jsonl": "jsonl",
    "gzip": "jsonl",
    "zstd": "zstd",
    "csv": "csv_file",
    "parquet": "parquet",
    "sqlite": "sqlite",
    "postgres": "postgres",
    "objects": "objects",
    "folder": "folder",
    "redis": "redis_key",
    "stdout": "stdout",
}
"""Each kind is a module of its own, imported when it is asked for: its package may not be installed."""
_EXTRAS = {"parquet": "parquet", "postgres": "postgres", "objects": "s3"}


class Sink(Protocol):
    """Takes items. A request is completed only after the sinks have its items.

    A method ``async def finish(self) -> None`` may be there too; it is called once, by the process that saw the crawl
    end.
    """

    async def write(self, records: Sequence[Record]) -> None:
        """Return when all records are durable.

        Raises `SinkUnavailable` if that cannot be done now; the caller tries again with the same records. `InvalidItem`
        if one of them can never be stored; then they come again in smaller parts, and its page fails. After either, and
        after a crash, a record may come a second time, with the same key.
        """

    async def close(self) -> None: ...


def open_sink(out: str | os.PathLike[str], *, redis: str | None = None) -> ThreadedSink:
    """The sink that the shape of *out* names; *redis* is the server of the crawl, for ``redis:KEY``.

    It looks whether the place can be written to, which may block for some seconds. `ConfigError` when something is
    wrong (the shape, a password, a permission, a package that is missing); `SinkUnavailable` when the place cannot be
    reached now, and then it may be opened later. Open it in the process that writes: locks do not survive a fork.
    """
    destination = read_out(os.fspath(out), redis)
    return ThreadedSink(_open_writer(destination), repr(destination).strip("<>"))


def _open_writer(destination: Destination) -> Writer:
    kind = destination.kind
    try:
        module = importlib.import_module(f"silkline.sinks.{_MODULES[kind]}")
    except ModuleNotFoundError as error:
        if kind not in _EXTRAS or (error.name or "").startswith("silkline"):
            raise
        raise ConfigError(
            f"{destination.public} needs the package {error.name}: pip install 'silkline[{_EXTRAS[kind]}]'"
        ) from None
    writer: Writer = module.open_writer(destination)
    return writer
