"""WACZ files (version 1.1.1): a zip file with the WARC files of a crawl, an index, a list of pages, and the hashes of all of them.

A zip file cannot grow while several processes write to it. So pages are appended to ``x.wacz.warc.gz``, and at the end of the crawl, that file is
packed into ``x.wacz`` and deleted. A later run adds another WARC file to it. Each has a name that comes from its first record, so that a run that was
killed between the two steps packs no page twice.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import mmap
import os
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, Self
from urllib.parse import quote, unquote_to_bytes, urlsplit

from silkline.errors import ConfigError, SinkUnavailable
from silkline.sinks.archive.warc import WarcWriter, scan_gzip
from silkline.sinks.destination import Destination
from silkline.sinks.files import replacing

SPOOL = ".warc.gz"
WACZ_VERSION = "1.1.1"
ARCHIVE, INDEX, DIRECTORY, PAGES = "archive/", "indexes/index.cdx.gz", "indexes/index.idx", "pages/pages.jsonl"
PACKAGE, DIGEST = "datapackage.json", "datapackage-digest.json"
CHUNK = 3_000
"""Lines of the index that are compressed together."""
MOST_HEAD = 128 * 1024
"""Bytes of a record that are read for the index: its head, and the head of its HTTP message."""
_PIECE = 2**20
_HTML = ("text/html", "application/xhtml+xml")


class WaczWriter(WarcWriter):
    """Appends to a WARC file, and packs it at the end of the crawl."""

    def __init__(self, destination: Destination) -> None:
        self._path = destination.path
        check_package(self._path)
        super().__init__(destination._replace(kind="warc_gz", url=f"{self._path}{SPOOL}"))

    def finish(self) -> None:
        """Pack what was appended."""
        with self._file.turn():
            if self._file.size:
                with self._file.mapped() as spool, replacing(self._path) as file:
                    assert spool is not None
                    with os.fdopen(os.dup(file), "wb") as out:
                        pack(self._path, spool, out)
            self._file.remove()

    def empty(self) -> None:
        super().empty()
        self._path.unlink(missing_ok=True)


def open_writer(destination: Destination) -> WaczWriter:
    return WaczWriter(destination)


def check_package(path: Path) -> None:
    """Raise `ConfigError` for an existing file to which no pages can be added."""
    if not path.exists():
        return
    try:
        with zipfile.ZipFile(path) as package:
            software = json.loads(package.read(PACKAGE)).get("software", "")
            package.getinfo(INDEX)
    except (zipfile.BadZipFile, KeyError, ValueError, AttributeError, OSError) as error:
        raise ConfigError(f"{path} already exists and cannot be read as WACZ: {error}; use another name") from None
    if not str(software).startswith("Silkline/"):
        raise ConfigError(f"{path} already exists and was not written by Silkline; use another name")


# ── packing ──


class IndexRow(NamedTuple):
    """A line of the index: its key, its time (14 digits), and its other fields."""

    key: str
    time: str
    fields: dict[str, str]


def pack(path: Path, spool: mmap.mmap, out: IO[bytes]) -> None:
    """Write a package of *spool*, and of the WARC files in the package at *path*, if it exists, to *out*."""
    name = f"{_first_digest(spool)[:16]}{SPOOL}"
    old = zipfile.ZipFile(path) if path.exists() else None
    rows_file = path.with_name(f".{path.name}.rows")
    try:
        with SortedRows(rows_file) as rows, zipfile.ZipFile(out, "w", allowZip64=True) as package:
            members = PackageMembers(package)
            if old is not None:
                kept = [one for one in old.namelist() if one.startswith(ARCHIVE) and one != ARCHIVE + name]
                for one in kept:
                    with old.open(one) as member:
                        members.add(one, iter(partial(member.read, _PIECE), b""))
                names = {one.removeprefix(ARCHIVE) for one in kept}
                rows.add(row for row in read_index(old) if row.fields.get("filename") in names)
            members.add(ARCHIVE + name, (spool[at : at + _PIECE] for at in range(0, len(spool), _PIECE)))
            rows.add(index_rows(spool, name))
            _add_index(members, rows)
            members.add(PAGES, _page_lines(rows))
            members.finish(rows.first_page())
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise SinkUnavailable(f"{path} is damaged, so no pages can be added: {error}") from None
    except sqlite3.Error as error:
        raise SinkUnavailable(f"{path} cannot be written: {error}") from None
    finally:
        rows_file.unlink(missing_ok=True)
        if old is not None:
            old.close()


class PackageMembers:
    """Adds members to a package, and describes them. They are not compressed, so that readers can seek in them."""

    def __init__(self, package: zipfile.ZipFile) -> None:
        self._package = package
        self._resources: list[dict[str, Any]] = []
        self._now = datetime.now(UTC)

    def add(self, path: str, pieces: Iterable[bytes]) -> None:
        digest, size = hashlib.sha256(), 0
        info = zipfile.ZipInfo(path, self._now.timetuple()[:6])
        with self._package.open(info, "w", force_zip64=True) as member:
            for piece in pieces:
                member.write(piece)
                digest.update(piece)
                size += len(piece)
        name = path.rpartition("/")[2]
        self._resources.append({"name": name, "path": path, "hash": f"sha256:{digest.hexdigest()}", "bytes": size})

    def finish(self, main: IndexRow | None) -> None:
        created = self._now.strftime("%Y-%m-%dT%H:%M:%SZ")
        described: dict[str, Any] = {
            "profile": "data-package",
            "wacz_version": WACZ_VERSION,
            "software": f"Silkline/{version('silkline')}",
            "created": created,
            "resources": list(self._resources),
        }
        if main is not None:
            described |= {"mainPageUrl": main.fields["url"], "mainPageDate": _iso(main.time)}
        text = json.dumps(described, indent=2).encode()
        self.add(PACKAGE, [text])
        digest = {"path": PACKAGE, "hash": f"sha256:{hashlib.sha256(text).hexdigest()}"}
        self.add(DIGEST, [json.dumps(digest, indent=2).encode()])


def _first_digest(spool: mmap.mmap) -> str:
    """Return the digest of the first record, which has an id."""
    _, end, _ = next(scan_gzip(spool, 0))
    return hashlib.sha256(spool[:end]).hexdigest()


# ── the index ──


class SortedRows:
    """The lines of an index, which may not fit in memory, in a file."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; CREATE TABLE lines (key TEXT, time TEXT, fields TEXT);"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, rows: Iterable[IndexRow]) -> None:
        self._database.execute("BEGIN")
        found = ((row.key, row.time, json.dumps(row.fields)) for row in rows)
        self._database.executemany("INSERT INTO lines VALUES (?, ?, ?)", found)
        self._database.execute("COMMIT")

    def lines(self) -> Iterator[str]:
        for row in self._database.execute("SELECT key, time, fields FROM lines ORDER BY key, time, rowid"):
            yield "{} {} {}\n".format(*row)

    def pages(self) -> Iterator[IndexRow]:
        """Yield the HTML pages with status 200 in the order in which they were fetched."""
        for key, time, fields in self._database.execute("SELECT key, time, fields FROM lines ORDER BY rowid"):
            found = json.loads(fields)
            if found.get("status") == "200" and found.get("mime") in _HTML:
                yield IndexRow(key, time, found)

    def first_page(self) -> IndexRow | None:
        return next(iter(self.pages()), None)


def read_index(package: zipfile.ZipFile) -> Iterator[IndexRow]:
    """Yield the lines of the index of a package."""
    with package.open(INDEX) as member, gzip.open(member, "rt", encoding="utf-8") as lines:
        for line in lines:
            key, time, fields = line.split(" ", 2)
            yield IndexRow(key, time, json.loads(fields))


def _add_index(members: PackageMembers, rows: SortedRows) -> None:
    """Add the index, in chunks that can be read alone, and the directory of its chunks."""
    name = INDEX.rpartition("/")[2]
    directory = ["!meta 0 " + json.dumps({"format": "cdxj-gzip-1.0", "filename": name}) + "\n"]

    def chunks() -> Iterator[bytes]:
        lines, offset = rows.lines(), 0
        while chunk := list(islice(lines, CHUNK)):
            packed = gzip.compress("".join(chunk).encode(), 6, mtime=0)
            digest = f"sha256:{hashlib.sha256(packed).hexdigest()}"
            place = {"offset": offset, "length": len(packed), "digest": digest, "filename": name}
            directory.append(f"{' '.join(chunk[0].split(' ', 2)[:2])} {json.dumps(place)}\n")
            offset += len(packed)
            yield packed

    members.add(INDEX, chunks())
    members.add(DIRECTORY, ["".join(directory).encode()])


def _page_lines(rows: SortedRows) -> Iterator[bytes]:
    yield json.dumps({"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}).encode() + b"\n"
    for number, row in enumerate(rows.pages(), 1):
        yield json.dumps({"id": str(number), "url": row.fields["url"], "ts": _iso(row.time)}).encode() + b"\n"


def _iso(time: str) -> str:
    return f"{time[:4]}-{time[4:6]}-{time[6:8]}T{time[8:10]}:{time[10:12]}:{time[12:14]}Z"


# ── the records of a spool ──


def index_rows(spool: mmap.mmap, name: str) -> Iterator[IndexRow]:
    """Yield a line for each response to a GET request. The request follows its response."""
    waiting: IndexRow | None = None
    for start, end, is_whole in scan_gzip(spool, 0):
        if not is_whole:
            return
        head = _head_of(spool, start, end)
        kind = head.fields.get("warc-type")
        if kind == "request" and waiting is not None and not head.first.startswith("GET "):
            waiting = None
        elif kind in ("response", "revisit"):
            if waiting is not None:
                yield waiting
            waiting = _row_of(head, kind, start, end, name)
    if waiting is not None:
        yield waiting


class RecordHead(NamedTuple):
    """The fields of a record, and the first line and the content type of its HTTP message."""

    fields: dict[str, str]
    first: str
    content_type: str


def _head_of(spool: mmap.mmap, start: int, end: int) -> RecordHead:
    data = zlib.decompressobj(wbits=31).decompress(spool[start : min(end, start + MOST_HEAD)], MOST_HEAD)
    warc, _, block = data.partition(b"\r\n\r\n")
    http = block.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    kinds = [line.partition(":")[2].strip() for line in http[1:] if line.lower().startswith("content-type:")]
    fields: dict[str, str] = {}
    for line in warc.decode("utf-8", "replace").split("\r\n")[1:]:
        field, _, value = line.partition(":")
        fields[field.lower()] = value.strip()
    return RecordHead(fields, http[0], kinds[0] if kinds else "")


def _row_of(head: RecordHead, kind: str, start: int, end: int, name: str) -> IndexRow:
    url, fields = head.fields.get("warc-target-uri", ""), {}
    mime = "warc/revisit" if kind == "revisit" else head.content_type.partition(";")[0].strip().lower()
    fields = {"url": url, "mime": mime or "unk", "status": [*head.first.split(" "), "", ""][1]}
    if digest := head.fields.get("warc-payload-digest"):
        fields["digest"] = digest
    fields |= {"length": str(end - start), "offset": str(start), "filename": name}
    time = re.sub(r"\D", "", head.fields.get("warc-date", ""))[:14].ljust(14, "0")
    return IndexRow(surt(url), time, fields)


_WWW = re.compile(r"www\d*\.")
_SAFE = "".join(chr(number) for number in range(0x21, 0x7F) if chr(number) not in "#%")


def surt(url: str) -> str:
    """Return the key of a URL in an index, such as ``com,example)/path?a=1``: as other tools do, without www and in lower case."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = host[found.end() :] if (found := _WWW.match(host)) else host
    place = host if ":" in host else ",".join(reversed(host.split(".")))
    port = f":{parts.port}" if parts.port not in (None, {"http": 80, "https": 443}.get(parts.scheme)) else ""
    path = re.sub("/{2,}", "/", _minimal(parts.path)).rstrip("/") or "/"
    query = "&".join(sorted(_minimal(parts.query).split("&")))
    return f"{place}{port}){path}{f'?{query}' if query else ''}"


def _minimal(text: str) -> str:
    """Return a part of a URL with as few escaped characters as possible."""
    return quote(unquote_to_bytes(text), safe=_SAFE).lower()
