"""Parse OUT: the kind of sink, its location and options. No I/O; passwords are never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from silkline.errors import ConfigError
from silkline.frontier.transport.redis_url import without_password

SHAPES = """\
  books.jsonl  books.jsonl.gz  books.jsonl.zst     lines of JSON (.ndjson too)
  books.json                                       a JSON array
  books.csv  books.parquet                         tables
  sqlite:///books.db?table=items                   a SQLite file; four slashes for an absolute path
  postgresql://user:password@host/db?table=items   a PostgreSQL table
  postgresql://...?table=products&key=sku          a table of your own, updated by its key (SQLite too)
  s3://bucket/prefix  gs://...  az://...  file://  an object per batch
  redis:KEY  redis:KEY?type=stream&maxlen=100000   a list or stream on the server of the crawl
  pages.warc.gz  pages.warc  pages.wacz            an archive of the pages as they were received
  -                                                lines of JSON on standard output"""

_SUFFIXES = {
    ".jsonl": "jsonl", ".jsonl.gz": "gzip", ".jsonl.zst": "zstd",
    ".ndjson": "jsonl", ".ndjson.gz": "gzip", ".ndjson.zst": "zstd",
    ".json": "json", ".csv": "csv", ".parquet": "parquet", ".warc": "warc", ".warc.gz": "warc_gz",
    ".wacz": "wacz",
}  # fmt: skip
_SCHEMES = {
    "sqlite": "sqlite",
    "postgresql": "postgres", "postgres": "postgres",
    "s3": "objects", "s3a": "objects", "gs": "objects", "az": "objects", "azure": "objects", "abfs": "objects",
    "abfss": "objects",
    "file": "folder",
    "redis": "redis", "rediss": "redis", "unix": "redis",
    "redis+cluster": "redis", "rediss+cluster": "redis", "redis+sentinel": "redis", "rediss+sentinel": "redis",
}  # fmt: skip
_OWN_OPTIONS = {
    "jsonl": {"key"}, "json": {"key"}, "gzip": {"key"}, "zstd": {"key"}, "csv": {"key", "safe"}, "parquet": set(), "stdout": {"key"},
    "sqlite": {"table", "key"}, "postgres": {"table", "key"}, "redis": {"key", "type", "maxlen"}, "objects": {"key"}, "folder": {"key"},
    "warc": {"credentials"}, "warc_gz": {"credentials"}, "wacz": {"credentials"},
}  # fmt: skip
ARCHIVES = ("warc", "warc_gz", "wacz")
"""Kinds that store pages, and no items."""
LOCAL_FILES = ("jsonl", "json", "gzip", "zstd", "csv", "parquet", "sqlite", "folder", *ARCHIVES)
"""Kinds that are local files."""
_CAN_BE_EMPTIED = ("jsonl", "json", "gzip", "zstd", "csv", "parquet", "sqlite", *ARCHIVES)
"""Kinds that --overwrite empties. The others may belong to several crawls."""
_MAY_BE_SECRET = re.compile("secret|token|pass|pwd|key|credential|sig|sas|auth", re.IGNORECASE)
_PASSES_OPTIONS_ON = ("postgres", "objects", "redis")


class Destination(NamedTuple):
    """Where items are stored. Options that Silkline does not use stay in *url* or *others*."""

    kind: str
    url: str
    options: Mapping[str, str]
    others: Mapping[str, str] = MappingProxyType({})
    server: str | None = None
    """The Redis server of the crawl."""

    @property
    def path(self) -> Path:
        """The path of a file with symbolic links resolved, so that a replacement keeps the link."""
        return Path(self.url).expanduser().resolve()

    @property
    def public(self) -> str:
        """The destination for messages and logs, without password and options, which may be secret."""
        return without_password(self.url.partition("?")[0]) if "://" in self.url else self.url

    @property
    def can_be_emptied(self) -> bool:
        """Whether --overwrite may delete what is stored; a table of the user's own is left alone."""
        return self.kind in _CAN_BE_EMPTIED and not (self.kind == "sqlite" and "key" in self.options)

    @property
    def with_key(self) -> bool:
        return self.flag("key")

    def flag(self, name: str) -> bool:
        value = self.options.get(name, "false").lower()
        if value not in ("true", "false", "1", "0", "yes", "no"):
            raise ConfigError(f"the option {name} of {self.public} must be true or false, got {value!r}")
        return value in ("true", "1", "yes")

    def __repr__(self) -> str:
        return f"<{self.kind} {self.public}>"


def read_out(out: str, server: str | None = None) -> Destination:
    """Parse *out*. Raises `ConfigError`, with a list of the supported forms, if it is unknown."""
    if out in ("-", "stdout"):
        return Destination("stdout", "standard output", {})
    place, _, query = out.partition("?")
    kind = kind_of(place)
    if kind is None:
        raise ConfigError(f"unknown output {without_password(place)!r}; supported are:\n{SHAPES}")
    options, others = _split(kind, dict(parse_qsl(query, keep_blank_values=True)), place)
    if kind == "sqlite":
        place = _sqlite_path(place)
    elif kind == "redis" and "://" in place:
        return _own_redis(place, options, others)
    elif kind == "redis":
        place = unquote(place.removeprefix("redis:"))
    elif kind == "postgres" and others:
        place += "?" + urlencode(others)
    return Destination(kind, place, options, others, server)


class Public(NamedTuple):
    """An OUT without secrets, which can be stored in the crawl."""

    out: str
    hidden: tuple[str, ...]
    """Names of the parts that were left out."""
    kind: str


def without_secrets(out: str) -> Public:
    """Remove passwords and options that may contain a key or a token; make file paths absolute."""
    place, mark, query = out.partition("?")
    kind = read_out(out).kind
    if kind in LOCAL_FILES:
        return Public(_absolute(kind, place) + mark + query, (), kind)
    hidden: list[str] = []
    if (
        kind != "objects" and "://" in place and "@" in query and "@" not in place
    ):  # the question mark is part of a password
        return Public(f"{place.partition('://')[0]}://", ("password",), kind)
    if "://" in place and "@" in place:
        scheme, _, rest = place.partition("://")
        login, _, where = rest.rpartition("@")
        user, colon, _ = login.partition(":")
        hidden += ["password"] if colon else []
        place = f"{scheme}://{user}@{where}" if user else f"{scheme}://{where}"
    kept = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        secret = name not in _OWN_OPTIONS[kind] and (_MAY_BE_SECRET.search(name) or "@" in value)
        hidden += [name] if secret else []
        kept += [] if secret else [(name, value)]
    return Public(place + ("?" + urlencode(kept) if kept else ""), tuple(hidden), kind)


def _absolute(kind: str, place: str) -> str:
    if kind == "sqlite":
        return "sqlite:///" + quote(str(Path(_sqlite_path(place)).expanduser().absolute()))
    if kind == "folder":
        return place
    return str(Path(place).expanduser().absolute())


def folder_of(out: str) -> Path:
    """Return the directory of a local output."""
    destination = read_out(out)
    path = Path(unquote(destination.url.partition("://")[2])) if destination.kind == "folder" else destination.path
    return path if destination.kind == "folder" else path.parent


def kind_of(place: str) -> str | None:
    """Return the kind of an output without options, such as ``sqlite``; None if it is unknown."""
    if place in ("-", "stdout"):
        return "stdout"
    scheme, found, rest = place.partition("://")
    if found:
        return _SCHEMES.get(scheme.lower()) if rest else None
    if place.startswith("redis:"):
        return "redis" if place != "redis:" else None
    name = Path(place).name.lower()
    return next((kind for suffix, kind in _SUFFIXES.items() if name.endswith(suffix) and name != suffix), None)


def _split(kind: str, given: dict[str, str], place: str) -> tuple[dict[str, str], dict[str, str]]:
    known = _OWN_OPTIONS[kind]
    options = {name: value for name, value in given.items() if name in known}
    others = {name: value for name, value in given.items() if name not in known}
    passed_on = kind in _PASSES_OPTIONS_ON and "://" in place
    if others and not passed_on:
        can_say = f"supported: {', '.join(sorted(known))}" if known else "it supports none"
        raise ConfigError(f"{place} has no option {', '.join(sorted(others))}; {can_say}")
    return options, others


def _sqlite_path(place: str) -> str:
    path = place.partition("://")[2]
    if not path.startswith("/") or not path.strip("/"):
        raise ConfigError(f"a SQLite output must be sqlite:///books.db or sqlite:////data/books.db, got {place!r}")
    return unquote(path[1:])


def _own_redis(place: str, options: dict[str, str], others: dict[str, str]) -> Destination:
    key = options.pop("key", "")
    if not key:
        raise ConfigError(f"{without_password(place)} needs the key of a list or stream: add ?key=NAME")
    server = place + ("?" + urlencode(others) if others else "")
    return Destination("redis", key, options, {}, server)
