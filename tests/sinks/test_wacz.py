"""WACZ files have what version 1.1.1 asks for, and neither lose nor repeat a page when a run is killed."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing

import pytest
from warcio.archiveiterator import ArchiveIterator

from silkline.errors import ConfigError, SinkUnavailable
from silkline.fetch.archive.index import build_index
from silkline.sinks import open_sink
from silkline.sinks.archive.wacz import surt
from tests.sinks.test_archive import PAGE, exchange

TEXT = [("Content-Type", "text/plain; charset=utf-8")]
FIRST = [
    exchange("/"),
    exchange("/B/?z=1&a=2", PAGE),  # the same payload: a revisit
    exchange("/note", b"note" * 300, headers=TEXT),
    exchange("/gone", b"gone", status=404),
    exchange("/search", b"found", method="POST", request_body=b"q=1"),
]
INDEXED = ["/", "/B/?z=1&a=2", "/gone", "/note"]


async def written(out, *exchanges, finish=True):
    sink = open_sink(out)
    await sink.archive(exchanges)
    if finish:
        await sink.finish()
    await sink.close()


class Package:
    """A WACZ file, as its specification says how to read it. Each hash, each offset and the order of the index are checked."""

    def __init__(self, path):
        with zipfile.ZipFile(path) as self.zip:
            assert self.zip.testzip() is None
            assert {one.compress_type for one in self.zip.infolist()} == {zipfile.ZIP_STORED}
            self.files = {one: self.zip.read(one) for one in self.zip.namelist()}
        self.description = json.loads(self.files["datapackage.json"])
        digest = json.loads(self.files["datapackage-digest.json"])
        assert digest == {"path": "datapackage.json", "hash": sha256(self.files["datapackage.json"])}
        assert (self.description["profile"], self.description["wacz_version"]) == ("data-package", "1.1.1")
        listed = {one["path"]: (one["hash"], one["bytes"]) for one in self.description["resources"]}
        assert listed == {
            path: (sha256(data), len(data)) for path, data in self.files.items() if not path.startswith("datapackage")
        }
        self.rows = [line.split(" ", 2) for line in self._chunks()]
        assert [row[:2] for row in self.rows] == sorted(row[:2] for row in self.rows)
        head, *pages = map(json.loads, self.files["pages/pages.jsonl"].splitlines())
        assert head["format"] == "json-pages-1.0"
        self.pages = [(page["url"], page["ts"]) for page in pages]

    def _chunks(self):
        """The lines of the index, chunk by chunk, as its directory says."""
        head, *places = self.files["indexes/index.idx"].decode().splitlines()
        assert head == '!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}'
        packed = self.files["indexes/index.cdx.gz"]
        for line in places:
            place = json.loads(line.split(" ", 2)[2])
            chunk = packed[place["offset"] : place["offset"] + place["length"]]
            assert place["digest"] == sha256(chunk)
            lines = gzip.decompress(chunk).decode().splitlines()
            assert lines[0].split(" ")[:2] == line.split(" ")[:2]
            yield from lines

    def found(self):
        """The kind and path of the record of each line of the index, as warcio reads it there."""
        for key, time, text in self.rows:
            row = json.loads(text)
            data = self.files["archive/" + row["filename"]]
            start, length = int(row["offset"]), int(row["length"])
            (record,) = ArchiveIterator(io.BytesIO(data[start : start + length]), check_digests="raise")
            assert record.rec_headers.get_header("WARC-Target-URI") == row["url"]
            assert key == surt(row["url"])
            assert record.http_headers.get_statuscode() == row["status"]
            assert time == "20260109230640"
            yield record.rec_type, row["url"].removeprefix("https://books.example"), row["mime"]


def sha256(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


async def test_a_package_has_archive_index_pages_and_hashes(tmp_path):
    out = tmp_path / "pages.wacz"
    await written(out, *FIRST)
    package = Package(out)
    assert list(package.found()) == [
        ("response", "/", "text/html"),
        ("revisit", "/B/?z=1&a=2", "warc/revisit"),
        ("response", "/gone", "text/html"),
        ("response", "/note", "text/plain"),
    ]
    assert package.pages == [("https://books.example/", "2026-01-09T23:06:40Z")]
    assert package.description["mainPageUrl"] == "https://books.example/"
    assert [path.name for path in tmp_path.iterdir()] == ["pages.wacz"]


async def test_a_later_run_adds_to_it_and_until_then_its_pages_are_a_warc_file(tmp_path):
    out, spool = tmp_path / "pages.wacz", tmp_path / "pages.wacz.warc.gz"
    await written(out, *FIRST)
    await written(out, exchange("/new", b"new" * 500), finish=False)
    assert len(Package(out).pages) == 1
    with spool.open("rb") as file:
        assert [one.rec_type for one in ArchiveIterator(file)] == ["warcinfo", "response", "request"]
    await written(out, exchange("/newer", b"newer" * 500))
    package = Package(out)
    assert [path for _, path, _ in package.found()] == [*INDEXED[:-1], "/new", "/newer", "/note"]
    assert [url.rpartition("/")[2] for url, _ in package.pages] == ["", "new", "newer"]
    assert len([path for path in package.files if path.startswith("archive/")]) == 2
    assert not spool.exists()


async def test_a_run_that_is_killed_after_packing_packs_no_page_twice(tmp_path):
    out, spool = tmp_path / "pages.wacz", tmp_path / "pages.wacz.warc.gz"
    await written(out, *FIRST, finish=False)
    left = spool.read_bytes()
    await written(out)
    await written(out, finish=True)
    spool.write_bytes(left)  # as if it had been killed before deleting it
    await written(out, exchange("/new", b"new" * 500))
    package = Package(out)
    assert [path for _, path, _ in package.found()] == [*INDEXED[:-1], "/new", "/note"]
    assert len([path for path in package.files if path.startswith("archive/")]) == 1


async def test_a_worker_that_is_killed_while_it_packs_leaves_the_package_as_it_was(tmp_path):
    out = tmp_path / "pages.wacz"
    await written(out, *FIRST)
    before = out.read_bytes()
    await written(out, exchange("/new", b"new" * 500), finish=False)
    program = (
        "import asyncio, os, signal, sys\n"
        "from silkline.sinks import open_sink\n"
        "from silkline.sinks.archive import wacz\n"
        "wacz.PackageMembers.finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(open_sink(sys.argv[1]).finish())\n"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program, str(out)], check=False, timeout=100)
    assert done.returncode == -signal.SIGKILL
    assert out.read_bytes() == before
    await written(out)
    assert "/new" in [path for _, path, _ in Package(out).found()]
    assert os.listdir(tmp_path) == ["pages.wacz"]  # noqa: PTH208 - the names of hidden files too


async def test_silkline_reads_it_too(tmp_path):
    await written(tmp_path / "pages.wacz", *FIRST)
    report = build_index([tmp_path / "pages.wacz"], tmp_path / "x.index", 2**20)
    assert (report.urls, report.pages, report.damaged) == (5, 3, 0)
    with closing(sqlite3.connect(tmp_path / "x.index")) as index:
        urls = sorted(url.removeprefix("https://books.example") for (url,) in index.execute("SELECT url FROM pages"))
    assert urls == sorted([*INDEXED, "/search"])


async def test_overwrite_empties_it(tmp_path):
    out = tmp_path / "pages.wacz"
    await written(out, *FIRST)
    sink = open_sink(out)
    await sink.empty()
    await sink.archive([exchange("/only")])
    await sink.finish()
    await sink.close()
    assert [path for _, path, _ in Package(out).found()] == ["/only"]


def foreign(path):
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("datapackage.json", '{"software": "another"}')
        package.writestr("indexes/index.cdx.gz", b"")


STRANGE = {
    "was not written by Silkline": foreign,
    "cannot be read as WACZ": lambda path: path.write_bytes(b"PK\x03\x04 and no more"),
}


@pytest.mark.parametrize("words", STRANGE)
def test_a_file_of_others_is_left_alone(words, tmp_path):
    out = tmp_path / "pages.wacz"
    STRANGE[words](out)
    before = out.read_bytes()
    with pytest.raises(ConfigError, match=f"already exists and {words}"):
        open_sink(out)
    assert out.read_bytes() == before


async def test_a_package_that_was_damaged_keeps_its_new_pages_beside_it(tmp_path):
    out, spool = tmp_path / "pages.wacz", tmp_path / "pages.wacz.warc.gz"
    await written(out, *FIRST)
    data = bytearray(out.read_bytes())
    data[200] ^= 0xFF  # within the WARC file
    sink = open_sink(out)
    await sink.archive([exchange("/new")])
    out.write_bytes(data)
    with pytest.raises(SinkUnavailable, match=r"pages.wacz is damaged, so no pages can be added: Bad CRC-32"):
        await sink.finish()
    await sink.close()
    assert out.read_bytes() == data
    assert spool.stat().st_size > 0


KEYS = {
    "http://www.Example.com:8080/A/B/?b=2&a=1#frag": "com,example:8080)/a/b?a=1&b=2",
    "https://shop.example.co.uk:443/": "uk,co,example,shop)/",
    "http://127.0.0.1:8000/a?": "1,0,0,127:8000)/a",
    "https://a.example/%7Ejoe/%C3%BC?q=A%20b&z&y=": "example,a)/~joe/%c3%bc?q=a%20b&y=&z",
    "https://www2.a.example//x//z/": "example,a)/x/z",
}


@pytest.mark.parametrize("url", KEYS)
def test_the_keys_of_an_index_are_those_of_other_tools(url):
    assert surt(url) == KEYS[url]
