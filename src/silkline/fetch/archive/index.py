"""ArchiveIndex: which record has the response to a request. A SQLite file that all workers of a run read."""

from __future__ import annotations

import mmap
import sqlite3
import struct
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from silkline.core.url import ParsedUrl, fingerprint, parse
from silkline.errors import ConfigError, RequestError
from silkline.fetch.archive.records import (
    BadRecord,
    SkippedBytes,
    WarcRecord,
    read_http,
    read_record,
    read_records,
)

MOST_FILES = 64
"""Files that are mapped at a time."""
MOST_REPORTED = 5
BATCH = 5_000
NOT_MODIFIED = "/server-not-modified"
"""The end of the profile of a revisit that says no more than that an earlier page has not changed."""

_TABLES = """
CREATE TABLE files (number INTEGER PRIMARY KEY, path TEXT, starts INTEGER, ends INTEGER);
CREATE TABLE pages (key INTEGER PRIMARY KEY, url TEXT, rank TEXT, is_page INTEGER, file INTEGER, place INTEGER, from_file INTEGER, from_place INTEGER);
CREATE TABLE payloads (digest INTEGER PRIMARY KEY, file INTEGER, place INTEGER);
"""
_KEEP_BEST = """
INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
  rank = excluded.rank, is_page = excluded.is_page, file = excluded.file, place = excluded.place,
  from_file = excluded.from_file, from_place = excluded.from_place
WHERE excluded.rank >= rank
"""


class ArchiveReport(msgspec.Struct):
    """What an index has found: the URLs with a response, the pages among them, and what cannot be read."""

    urls: int = 0
    pages: int = 0
    damages: list[str] = []
    """The first parts of files that cannot be read, as text."""
    damaged: int = 0
    """How many such parts there are."""

    def note(self, path: Path, skipped: SkippedBytes) -> None:
        self.damaged += 1
        if len(self.damages) < MOST_REPORTED:
            size = skipped.end - skipped.offset
            self.damages.append(f"{path}, offset {skipped.offset:,}: {skipped.reason}; {size:,} bytes were skipped")


class PagePlace(NamedTuple):
    """Where the response to a request is: the record with its head, and for a revisit, the record with its body."""

    path: Path
    starts: int
    ends: int
    place: int
    body: PagePlace | None = None


class ArchivePart(NamedTuple):
    """A WARC file, or one inside a WACZ file."""

    path: Path
    starts: int
    ends: int


# ── building ──


def build_index(archives: Sequence[Path], index: Path, most: int) -> ArchiveReport:
    """Write the index of *archives* to a new file *index*. Records of more than *most* bytes are left out.

    Raises `ConfigError` for a file that is no archive.
    """
    report = ArchiveReport()
    with closing(sqlite3.connect(index, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(_TABLES)
        database.execute("BEGIN")
        parts = [part for path in archives for part in parts_of(path)]
        for number, part in enumerate(parts):
            database.execute("INSERT INTO files VALUES (?, ?, ?, ?)", (number, str(part.path), part.starts, part.ends))
            _add_part(database, number, part, most, report)
        database.execute("COMMIT")
        report.urls, report.pages = database.execute("SELECT count(*), total(is_page) FROM pages").fetchone()
        report.pages = int(report.pages)
    return report


def parts_of(path: Path) -> list[ArchivePart]:
    """Return the WARC files in *path*, which is one, or a WACZ file. Raises `ConfigError` if it is neither."""
    path = path.expanduser().resolve()
    if not path.is_file():
        raise ConfigError(f"there is no archive {path}")
    if not zipfile.is_zipfile(path):
        return [ArchivePart(path, 0, path.stat().st_size)]
    with zipfile.ZipFile(path) as packed:
        inside = [one for one in packed.infolist() if one.filename.endswith((".warc", ".warc.gz"))]
    if not inside:
        raise ConfigError(f"{path} is a zip file without a WARC file in it; a WACZ file has one in archive/")
    if any(one.compress_type != zipfile.ZIP_STORED for one in inside):
        raise ConfigError(f"the WARC files in {path} are compressed by zip, which WACZ forbids; unpack them first")
    return [_part_inside(path, one) for one in inside]


def _part_inside(path: Path, one: zipfile.ZipInfo) -> ArchivePart:
    with path.open("rb") as file:
        file.seek(one.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
    start = one.header_offset + 30 + name + extra
    return ArchivePart(path, start, start + one.file_size)


def _add_part(database: sqlite3.Connection, number: int, part: ArchivePart, most: int, report: ArchiveReport) -> None:
    if part.starts == part.ends:
        return
    rows: list[tuple[object, ...]] = []
    found = 0
    with _mapped(part.path) as view:
        try:
            for record in read_records(view, part.starts, part.ends, most):
                if isinstance(record, SkippedBytes):
                    report.note(part.path, record)
                    continue
                found += 1
                rows += _row_of(database, number, record, report, part.path)
                if len(rows) >= BATCH:
                    database.executemany(_KEEP_BEST, rows)
                    rows.clear()
        except ConfigError as error:
            raise ConfigError(f"{part.path} cannot be read: {error}") from None
    if not found:
        raise ConfigError(f"{part.path} is not a WARC file: no record can be read in it")
    database.executemany(_KEEP_BEST, rows)


def _row_of(
    database: sqlite3.Connection, number: int, record: WarcRecord, report: ArchiveReport, path: Path
) -> Iterator[tuple[object, ...]]:
    """Yield the row of a response to a GET request. Later successes replace earlier ones, and anything replaces an error."""
    if record.kind not in ("response", "revisit", "resource"):
        return
    try:
        address = parse(record.fields.get("warc-target-uri", "").strip("<>"))
    except RequestError:
        return  # such as a DNS record
    head = body = (number, record.offset)
    if record.kind == "revisit":
        found = _payload_of(database, record)
        if found is None:
            if not record.fields.get("warc-profile", "").endswith(NOT_MODIFIED):
                reason = "it is a revisit of a page that none of the archives before it has"
                report.note(path, SkippedBytes(record.offset, record.end, reason))
            return
        head = body = found
    elif digest := record.fields.get("warc-payload-digest"):
        database.execute("INSERT OR IGNORE INTO payloads VALUES (?, ?, ?)", (_digest_key(digest), *head))
    status, is_page = 200, False
    try:
        message = read_http(record)
    except BadRecord:
        if record.kind != "revisit":
            return
    else:
        head, status = (number, record.offset), message.status
        kinds = [value.lower() for name, value in message.headers if name.lower() == "content-type"]
        is_page = status == 200 and any("html" in kind for kind in kinds)
    rank = f"{status < 400:d}{record.fields.get('warc-date', '')}"
    yield _key_of(address), address.url, rank, is_page, *head, *body


def _payload_of(database: sqlite3.Connection, record: WarcRecord) -> tuple[int, int] | None:
    digest = record.fields.get("warc-payload-digest")
    if not digest or record.fields.get("warc-profile", "").endswith(NOT_MODIFIED):
        return None
    row: tuple[int, int] | None = database.execute(
        "SELECT file, place FROM payloads WHERE digest = ?", (_digest_key(digest),)
    ).fetchone()
    return row


def _key_of(address: ParsedUrl) -> int:
    """Return the key of a URL, which archives store without user and password."""
    value = fingerprint(msgspec.structs.replace(address, userinfo="") if address.userinfo else address)
    return value - 2**64 if value >= 2**63 else value


def _digest_key(digest: str) -> int:
    return int.from_bytes(blake2b(digest.encode(), digest_size=8).digest(), signed=True)


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        yield view


# ── reading ──


class ArchiveIndex:
    """An index that `build_index` has written, and the files that it names."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ConfigError(
                f"there is no index {path}; an archive is read with silkline run FILE --from-warc ARCHIVE"
            )
        self._database = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        files = self._database.execute("SELECT number, path, starts, ends FROM files").fetchall()
        self._parts = {number: ArchivePart(Path(name), starts, ends) for number, name, starts, ends in files}
        self._view = lru_cache(MOST_FILES)(_map)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, url: str) -> PagePlace | None:
        """Return where the response to a GET request of *url* is; None if no archive has it."""
        row = self._database.execute(
            "SELECT file, place, from_file, from_place FROM pages WHERE key = ?", (_key_of(parse(url)),)
        ).fetchone()
        if row is None:
            return None
        file, place, from_file, from_place = row
        head = PagePlace(*self._parts[file], place)
        if (file, place) == (from_file, from_place):
            return head
        return head._replace(body=PagePlace(*self._parts[from_file], from_place))

    def has(self, address: ParsedUrl) -> bool:
        """Whether an archive has a response to a GET request of this URL."""
        return self._database.execute("SELECT 1 FROM pages WHERE key = ?", (_key_of(address),)).fetchone() is not None

    def pages(self) -> Iterable[str]:
        """Yield the URLs of all HTML pages with status 200, in the order of the archives."""
        for (url,) in self._database.execute("SELECT url FROM pages WHERE is_page ORDER BY file, place"):
            yield url

    def record(self, where: PagePlace, most: int) -> WarcRecord:
        """Return the record at a place. Raises `BadRecord` if it cannot be read any more."""
        return read_record(self._view(where.path), where.place, where.ends, most)

    def close(self) -> None:
        self._view.cache_clear()
        self._database.close()


def _map(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
