"""What an OUT says: which kind of sink, where, with which options. No I/O, and nothing said aloud of passwords."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode

from silkline.core.errors import ConfigError
from silkline.frontier.address import without_password

SHAPES = """\
  books.jsonl  books.jsonl.gz  books.jsonl.zst     lines of JSON (.ndjson too)
  books.csv  books.parquet                         tables
  sqlite:///books.db?table=items                   a SQLite file; four slashes for an absolute path
  postgresql://user:password@host/db?table=items   a PostgreSQL table
  s3://bucket/prefix  gs://...  az://...  file://  an object per batch
  redis:KEY  redis:KEY?type=stream                 a list or stream on the server of the crawl
  -                                                lines of JSON on standard output"""

_SUFFIXES = {
    ".jsonl": "jsonl", ".jsonl.gz": "gzip", ".jsonl.zst": "zstd",
    ".ndjson": "jsonl", ".ndjson.gz": "gzip", ".ndjson.zst": "zstd",
    ".csv": "csv", ".parquet": "parquet",
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
    "jsonl": {"key"}, "gzip": {"key"}, "zstd": {"key"}, "csv": {"key"}, "parquet": set(), "stdout": {"key"},
    "sqlite": {"table"}, "postgres": {"table"}, "redis": {"key", "type"}, "objects": {"key"}, "folder": {"key"},
}  # fmt: skip
_PASSES_OPTIONS_ON = ("postgres", "objects", "redis")


class Destination(NamedTuple):
    """Where items go. Options that are not ours stay in *url* or *others*."""

    kind: str
    url: str
    options: Mapping[str, str]
    others: Mapping[str, str] = MappingProxyType({})
    server: str | None = None
    """The Redis of the crawl."""

    @property
    def path(self) -> Path:
        """Of a file: links followed, so that what is replaced is the file and not the link to it."""
        return Path(self.url).expanduser().resolve()

    @property
    def public(self) -> str:
        """For people and logs: no password, and no options, which may be secrets too."""
        return without_password(self.url.partition("?")[0]) if "://" in self.url else self.url

    @property
    def with_key(self) -> bool:
        return self.flag("key")

    def flag(self, name: str) -> bool:
        value = self.options.get(name, "false").lower()
        if value not in ("true", "false", "1", "0", "yes", "no"):
            raise ConfigError(f"{name} of {self.public} is true or false, got {value!r}")
        return value in ("true", "1", "yes")

    def __repr__(self) -> str:
        return f"<{self.kind} {self.public}>"


def read_out(out: str, server: str | None = None) -> Destination:
    """By the shape of *out*; `ConfigError` for one that is not known, with a list of those that are."""
    if out in ("-", "stdout"):
        return Destination("stdout", "standard output", {})
    place, _, query = out.partition("?")
    kind = _kind_of(place)
    if kind is None:
        raise ConfigError(f"no sink has the shape of {without_password(place)!r}; known are:\n{SHAPES}")
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


def _kind_of(place: str) -> str | None:
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
        can_say = f"it knows {', '.join(sorted(known))}" if known else "it has none"
        raise ConfigError(f"{place} has no option {', '.join(sorted(others))}; {can_say}")
    return options, others


def _sqlite_path(place: str) -> str:
    path = place.partition("://")[2]
    if not path.startswith("/") or not path.strip("/"):
        raise ConfigError(f"a SQLite file is written sqlite:///books.db, or sqlite:////data/books.db, got {place!r}")
    return unquote(path[1:])


def _own_redis(place: str, options: dict[str, str], others: dict[str, str]) -> Destination:
    key = options.pop("key", "")
    if not key:
        raise ConfigError(f"{without_password(place)} needs a key to write to: add ?key=NAME")
    server = place + ("?" + urlencode(others) if others else "")
    return Destination("redis", key, options, {}, server)
