"""Sink: the protocol of sinks, `open_sink`, and the records that sinks get: items as plain data that every sink can store."""

from __future__ import annotations

import asyncio
import base64
import importlib
import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

import msgspec

from silkline.errors import ConfigError, InvalidItem, SinkUnavailable
from silkline.sinks.archive.exchange import Exchange
from silkline.sinks.destination import Destination, read_out

_MODULES = {
    "jsonl": "jsonl",
    "json": "json_array",
    "gzip": "jsonl",
    "zstd": "jsonl",
    "csv": "csv_file",
    "parquet": "parquet",
    "sqlite": "sqlite",
    "postgres": "postgres",
    "objects": "objects",
    "folder": "folder",
    "redis": "redis_key",
    "stdout": "stdout",
    "warc": "archive.warc",
    "warc_gz": "archive.warc",
    "wacz": "archive.wacz",
}
"""The modules of the kinds. They are imported at first use, because their packages are optional."""
_EXTRAS = {"parquet": "parquet", "postgres": "postgres", "objects": "s3"}


class Sink(Protocol):
    """Stores items. A request is completed only after the sinks have stored its items.

    A sink may also have a method ``async def finish(self) -> None``. The process that detects the end of the crawl calls it
    once.

    With a method ``async def archive(self, exchanges: Sequence[Exchange]) -> None``, it also gets the pages as they were received,
    including redirects and errors. A request is completed only after that too. The method returns when they are durable, or raises
    `SinkUnavailable`.
    """

    async def write(self, records: Sequence[Record]) -> None:
        """Return when all records are durable.

        Raises `SinkUnavailable` if they cannot be written now; the caller retries with the same records. Raises
        `InvalidItem` if a record can never be stored; the caller retries with smaller batches, and the page of that
        record fails. After an error or a crash, a record may be written again with the same key.
        """

    async def close(self) -> None:
        """Close the sink. Everything that was written is durable already."""


@runtime_checkable
class Archive(Protocol):
    """A sink that stores pages as they were received; see `Sink`."""

    async def archive(self, exchanges: Sequence[Exchange]) -> None:
        """Return when all exchanges are durable. Raises `SinkUnavailable` if they cannot be written now."""


def open_sink(out: str | os.PathLike[str], *, redis: str | None = None) -> ThreadedSink:
    """Open the sink *out*; *redis* is the server of the crawl, for ``redis:KEY``.

    Checks that the destination is writable, which may block for some seconds. Raises `ConfigError` for an error that
    retries do not fix (an unknown form, a wrong password, a missing permission or package), and `SinkUnavailable` if the
    destination is not reachable now. Open it in the process that writes: locks do not survive a fork.
    """
    destination = read_out(os.fspath(out), redis)
    writer, name = _open_writer(destination), repr(destination).strip("<>")
    return ThreadedArchive(writer, name) if isinstance(writer, ArchiveWriter) else ThreadedSink(writer, name)


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


# ── blocking writers ──


class Writer(Protocol):
    """A blocking sink. It is called from one thread at a time and may also have a method ``finish``."""

    def write(self, records: Sequence[Record]) -> None:
        """Return when all records are durable. Raises `SinkUnavailable` if they cannot be written now."""

    def close(self) -> None:
        """Close what the writer has open."""


@runtime_checkable
class ArchiveWriter(Writer, Protocol):
    """A writer of archives."""

    def archive(self, exchanges: Sequence[Exchange]) -> None:
        """Return when all exchanges are durable. Raises `SinkUnavailable` if they cannot be written now."""


class ThreadedSink:
    """A sink that runs its writer in a separate thread, one call after the other, without blocking the event loop.

    If a caller is cancelled, the call in progress continues, and the next call waits for it.
    """

    def __init__(self, writer: Writer, name: str = "sink") -> None:
        self._writer = writer
        self._name = name
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(1, thread_name_prefix="silkline-sink")

    async def write(self, records: Sequence[Record]) -> None:
        """See `Sink.write`."""
        if records:
            await self._run(self._writer.write, records)

    async def finish(self) -> None:
        """Finish the output after the end of the crawl, such as merging a Parquet spool."""
        finish = getattr(self._writer, "finish", None)
        if finish:
            await self._run(finish)

    async def empty(self) -> None:
        """Delete all stored items. Other processes may have the output open. Does nothing for a kind that cannot be emptied."""
        empty = getattr(self._writer, "empty", None)
        if empty:
            await self._run(empty)

    async def close(self) -> None:
        """See `Sink.close`. The thread ends."""
        if self._thread is None:
            return
        try:
            await self._run(self._writer.close)
        finally:
            thread, self._thread = self._thread, None
            thread.shutdown(wait=False)

    async def _run(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._thread is None:
            raise SinkUnavailable(f"{self._name} is closed")
        await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    def __repr__(self) -> str:
        return f"<{self._name}>"


class ThreadedArchive(ThreadedSink):
    """A sink that stores pages as they were received. It stores no items."""

    def __init__(self, writer: ArchiveWriter, name: str) -> None:
        super().__init__(writer, name)
        self._archive_writer = writer

    async def write(self, records: Sequence[Record]) -> None:
        """Store nothing: items belong in another sink."""

    async def archive(self, exchanges: Sequence[Exchange]) -> None:
        """See `Sink`."""
        if exchanges:
            await self._run(self._archive_writer.archive, exchanges)


# ── records ──

DEEPEST = 100
"""Maximum nesting depth of an item."""
KEY, URL = "_key", "_url"
"""Column and field names for the key, the URL and fields without a column."""

_LIMIT = 2**63


class Record(msgspec.Struct, frozen=True):
    """One item and the URL of its page. Sinks that can upsert store one row per key.

    - *key*: stays the same when the page is retried.
    - *url*: the page on which the item was found.
    - *item*: plain data: None, bool, int (64 bits), float (finite), str, and lists and dicts of them.
    """

    key: str
    url: str
    item: dict[str, Any]


def record_of(key: str, url: str, item: object) -> Record:
    """Return a record of an item: a dict, or a dataclass, attrs, pydantic, msgspec or Scrapy object.

    Raises `InvalidItem` with the name of the field if a value cannot be stored.
    """
    return Record(key, url, plain_item(item))


def plain_item(item: object) -> dict[str, Any]:
    fields = _fields(item)
    if fields is None:
        raise InvalidItem(f"an item must be a dict, dataclass, attrs, pydantic or msgspec object, got {_kind(item)}")
    try:
        return _plain_fields(fields, 0)
    except _Unstorable as fault:
        raise InvalidItem(f"the item's field {fault.field} {fault.reason}") from None


class _Unstorable(Exception):
    """A value that cannot be stored. Its path in the item is completed while the exception propagates."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    @property
    def field(self) -> str:
        return ".".join(reversed(self.path))[:200]


def is_item(value: object) -> bool:
    """Whether the fields of *value* can be stored as an item."""
    return isinstance(value, Mapping | msgspec.Struct) or _adapted(value) is not None


def _fields(item: object) -> Mapping[Any, Any] | None:
    if isinstance(item, Mapping):
        return item
    if isinstance(item, msgspec.Struct):
        return msgspec.structs.asdict(item)
    return _adapted(item)


def _adapted(item: object) -> Mapping[Any, Any] | None:
    """Return the fields of a dataclass, attrs, pydantic or Scrapy object, or None."""
    if isinstance(item, type):
        return None
    from itemadapter import ItemAdapter  # noqa: PLC0415 - it loads Scrapy where that is installed: half a second

    return ItemAdapter(item) if ItemAdapter.is_item(item) else None


def _plain_fields(fields: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            plain[_name(name, plain)] = _plain(value, depth + 1)
        except _Unstorable as fault:
            fault.path.append(str(name))
            raise
    return plain


def _name(name: object, taken: Mapping[str, Any]) -> str:
    if type(name) is str and name.isascii() and name not in taken:
        return name
    if not isinstance(name, str | int):
        raise _Unstorable(f"has a name that is not a string, but {_kind(name)}")
    text = _text(name) if isinstance(name, str) else _digits(int(name))
    if text in taken:
        raise _Unstorable("occurs twice")
    return text


def _plain(value: object, depth: int) -> Any:
    convert = _USUAL.get(type(value))
    if convert:
        return convert(value)
    if depth > DEEPEST:
        raise _Unstorable(f"is nested deeper than {DEEPEST} levels")
    if type(value) is dict:
        return _plain_fields(value, depth)
    if type(value) is list:
        return _plain_list(value, depth)
    for kind, convert in _CONVERSIONS:
        if isinstance(value, kind):
            return convert(value)
    if isinstance(value, list | tuple | deque | AbstractSet):
        return _plain_list(_in_order(value) if isinstance(value, AbstractSet) else value, depth)
    fields = _fields(value)
    if fields is None:
        raise _Unstorable(
            f"is of type {_kind(value)}, which cannot be stored: make it text, a number, a list or a dict"
        )
    return _plain_fields(fields, depth)


def _plain_list(values: Any, depth: int) -> list[Any]:
    plain = []
    for position, value in enumerate(values):
        try:
            plain.append(_plain(value, depth + 1))
        except _Unstorable as fault:
            fault.path.append(str(position))
            raise
    return plain


def _in_order(values: AbstractSet[Any]) -> list[Any]:
    """Sort a set, so that the item is the same after a retry."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=repr)


def _text(value: str) -> str:
    """Return a plain `str` that can be encoded as UTF-8."""
    text = str.__str__(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text


def _integer(value: int) -> int | str:
    """Return an integer of 64 bits; larger integers become text."""
    number = int(value)
    return number if -_LIMIT <= number < _LIMIT else _digits(number)


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError:  # Python refuses more than 4300 digits
        return hex(number)


def _real(value: float) -> float | None:
    """Return None for infinity and NaN, which JSON does not have."""
    return float(value) if math.isfinite(value) else None


def _base64(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(value).decode()


_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: _plain(value.value, 0)),
    (str, _text),
    (int, _integer),
    (float, _real),
    ((datetime, date, time), lambda value: value.isoformat()),
    (timedelta, timedelta.total_seconds),
    ((Decimal, UUID, PurePath), lambda value: _text(str(value))),
    ((bytes, bytearray, memoryview), _base64),
)

_USUAL: dict[type, Callable[[Any], Any]] = {
    str: _text,
    int: _integer,
    float: _real,
    bool: bool,
    type(None): lambda value: value,
}
"""Fast lookup for the most common types."""


def _kind(value: object) -> str:
    return type(value).__name__


def row_of(record: Record) -> dict[str, Any]:
    """Return the item with key and URL in front; fields with these names are renamed."""
    taken = {f"{name}_": record.item[name] for name in (KEY, URL) if name in record.item}
    rest = {name: value for name, value in record.item.items() if name not in (KEY, URL)}
    return {KEY: record.key, URL: record.url, **rest, **taken}


def line_of(record: Record, *, with_key: bool) -> bytes:
    """Return the record as a line of JSON, with a line break."""
    return msgspec.json.encode(row_of(record) if with_key else record.item) + b"\n"
