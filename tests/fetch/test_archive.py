"""Archives of other programs, and damaged or hostile ones, as a source of pages."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
import zlib

import pytest
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from silkline import Request
from silkline.errors import ConfigError, FetchError, NotArchived, ResponseTooLarge
from silkline.fetch import Limits
from silkline.fetch.archive import records
from silkline.fetch.archive.archive_fetcher import ArchiveFetcher, most_block
from silkline.fetch.archive.index import build_index

SITE = "https://books.example"
HTML = ("Content-Type", "text/html")


class Writer(WARCWriter):
    """Writes without temporary files, which warcio does not close."""

    _create_temp_file = staticmethod(io.BytesIO)


class Written:
    """An archive that warcio writes."""

    def __init__(self, *, packed=True):
        self._out = io.BytesIO()
        self._writer = Writer(self._out, gzip=packed, warc_version="1.1")
        self.offsets = []

    def add(self, path, body, headers=(HTML,), status="200 OK", kind="response", **fields):
        self.offsets.append(self._out.tell())
        record = self._writer.create_warc_record(
            f"{SITE}{path}", kind, payload=io.BytesIO(body),
            http_headers=StatusAndHeaders(status, list(headers), protocol="HTTP/1.1"), warc_headers_dict=fields,
        )  # fmt: skip
        self._writer.write_record(record)
        return self

    def revisit(self, path, of, digest, headers=(HTML,)):
        head = StatusAndHeaders("200 OK", list(headers), protocol="HTTP/1.1") if headers else None
        place = (f"{SITE}{of}", "2026-01-01T00:00:00Z")
        self._writer.write_record(self._writer.create_revisit_record(f"{SITE}{path}", digest, *place, head))

    @property
    def data(self):
        return self._out.getvalue()


@pytest.fixture
async def opened(tmp_path):
    """Indexes archives, given as bytes or by path, and opens them; returns the fetcher and the report."""
    fetchers = []

    def open_(*archives, limits=None):
        paths = []
        for number, archive in enumerate(archives):
            paths.append(tmp_path / f"pages-{number}.warc" if isinstance(archive, bytes) else archive)
            if isinstance(archive, bytes):
                paths[-1].write_bytes(archive)
        index = tmp_path / f"{len(fetchers)}.index"
        report = build_index(paths, index, most_block(limits or Limits()))
        fetchers.append(ArchiveFetcher(index, limits))
        return fetchers[-1], report

    yield open_
    for fetcher in fetchers:
        await fetcher.close()


async def body(fetcher, path, **options):
    return (await fetcher.fetch(Request(f"{SITE}{path}"), user_agent="test", **options)).body


@pytest.mark.parametrize("packed", [True, False])
async def test_bodies_are_decoded_as_those_of_a_fetch(opened, packed):
    chunks = b"3;x=1\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    gzipped = gzip.compress(b"<p>" * 100_000)
    written = Written(packed=packed)
    written.add("/gzip", gzipped, [HTML, ("Content-Encoding", "gzip")])
    written.add("/chunked", chunks, [("Transfer-Encoding", "chunked")])
    written.add("/was-chunked", b"abcde", [("Transfer-Encoding", "chunked")])
    written.add("/both", b"%x\r\n%s\r\n0\r\n\r\n" % (len(gzipped), gzipped), [("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip")])  # fmt: skip
    written.add("/cut", gzipped[:100], [("Content-Encoding", "gzip")], **{"WARC-Truncated": "length"})
    written.add("/torn", gzipped[:100], [("Content-Encoding", "gzip")])
    fetcher, report = opened(written.data)
    assert (report.urls, report.pages, report.damaged) == (6, 1, 0)
    assert await body(fetcher, "/gzip") == await body(fetcher, "/both") == b"<p>" * 100_000
    assert await body(fetcher, "/chunked") == await body(fetcher, "/was-chunked") == b"abcde"
    assert b"<p>".startswith((await body(fetcher, "/cut"))[:3])
    assert await body(fetcher, "/gzip", cut=5) == b"<p><p"
    with pytest.raises(FetchError, match="incomplete"):
        await body(fetcher, "/torn")


async def test_a_page_is_found_by_any_spelling_of_its_url_and_else_not_archived(opened):
    fetcher, _ = opened(Written().add("/a?y=2&x=1", b"a").add("/b", b"no", status="404 Not Found").data)
    for url in ("/a?x=1&y=2", "/a?y=2&x=1#top"):
        assert await body(fetcher, url) == b"a"
    assert (await fetcher.fetch(Request("https://me:pw@books.example/b"), user_agent="test")).status == 404
    with pytest.raises(NotArchived, match=r"https://books.example/c is not in the archive"):
        await body(fetcher, "/c")
    with pytest.raises(NotArchived):
        await fetcher.fetch(Request(f"{SITE}/b", method="POST", body=b"x"), user_agent="test")


async def test_the_newest_success_of_a_url_counts(opened):
    dates = [{"WARC-Date": f"2026-01-0{day}T00:00:00Z"} for day in (1, 3, 2, 4)]
    written = Written()
    for number, (date, status) in enumerate(zip(dates, ["200 OK", "200 OK", "200 OK", "503 Busy"], strict=True)):
        written.add("/", b"%d" % number, status=status, **date)
    fetcher, report = opened(written.data)
    assert report.urls == 1
    assert await body(fetcher, "/") == b"1"


async def test_a_revisit_has_the_body_that_it_refers_to_also_in_another_file(opened):
    first = Written().add("/a", b"same")
    digest = re.search(rb"WARC-Payload-Digest: (\S+)", gzip.decompress(first.data))[1].decode()
    second = Written()
    second.revisit("/b", "/a", digest, [("X-A", "own")])
    second.revisit("/c", "/a", digest, [])
    fetcher, report = opened(first.data, second.data)
    assert report.damaged == 0
    assert await body(fetcher, "/b") == await body(fetcher, "/c") == b"same"
    assert (await fetcher.fetch(Request(f"{SITE}/b"), user_agent="test")).headers["x-a"] == "own"
    lone, report = opened(second.data, first.data)
    assert "revisit of a page that none of the archives before it has" in report.damages[0]
    with pytest.raises(NotArchived):
        await body(lone, "/b")


@pytest.mark.parametrize("packed", [True, False])
async def test_damage_is_reported_with_its_offset_and_reading_continues(opened, packed):
    written = Written(packed=packed)
    for number in range(5):
        written.add(f"/{number}", b"%d" % number * 1000)
    data, start = bytearray(written.data), written.offsets[2]
    data[start : start + 60] = b"\0" * 60
    fetcher, report = opened(bytes(data[:-30]))
    size = written.offsets[3] - start
    assert report.damaged == 2
    assert f"offset {start:,}: no WARC record begins here; {size:,} bytes were skipped" in report.damages[0]
    assert f"offset {written.offsets[4]:,}: the record is incomplete" in report.damages[1]
    assert [await body(fetcher, f"/{number}") for number in (0, 1, 3)] == [b"%d" % n * 1000 for n in (0, 1, 3)]
    with pytest.raises(NotArchived):
        await body(fetcher, "/2")


async def test_flipped_bits_in_compressed_data_cost_one_record(opened):
    written = Written()
    for number in range(5):
        written.add(f"/{number}", b"%d" % number * 1000)
    data = bytearray(written.data)
    middle = (written.offsets[2] + written.offsets[3]) // 2
    data[middle : middle + 8] = b"\xff" * 8
    _, report = opened(bytes(data))
    assert (report.urls, report.damaged) == (4, 1)
    assert f"offset {written.offsets[2]:,}: " in report.damages[0]


async def test_bombs_are_bounded(opened):
    """A record that declares too much is skipped unread, and one that decodes to too much fails as a page would."""
    limits = Limits(max_body=2**20)
    block = b"HTTP/1.1 200 OK\r\n\r\n"
    head = b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: https://books.example/%b\r\nContent-Length: %d\r\n\r\n"
    packer = zlib.compressobj(1, wbits=31)
    declared = packer.compress(head % (b"declared", 2**33) + block)
    for _ in range(16):
        declared += packer.compress(bytes(2**21))
    declared += packer.flush()
    lying = gzip.compress(head % (b"lying", len(block)) + block + bytes(2**25), 1)
    coded = Written().add("/coded", gzip.compress(bytes(2**24), 1), [("Content-Encoding", "gzip")]).data
    fine = Written().add("/fine", b"fine").data
    fetcher, report = opened(declared + lying + coded + fine, limits=limits)
    assert "offset 0: the record has 8,589,934,592 bytes; the limit is" in report.damages[0]
    assert "the record has more bytes than it declares" in report.damages[1]
    assert report.damaged == report.urls == 2
    assert await body(fetcher, "/fine") == b"fine"
    with pytest.raises(ResponseTooLarge):
        await body(fetcher, "/coded")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html>no archive</html>", "is not a WARC file: no record can be read in it"),
        (gzip.compress(Written(packed=False).add("/1", b"1").add("/2", b"2").data), "compressed as a whole"),
    ],
)
def test_what_is_no_archive_is_refused(tmp_path, data, words):
    path = tmp_path / "pages.warc.gz"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=words):
        build_index([path], tmp_path / "index", 2**20)
    with pytest.raises(ConfigError, match="there is no archive"):
        build_index([tmp_path / "none"], tmp_path / "other", 2**20)


HEAD = b"WARC/1.1\r\nWARC-Type: response\r\nX: "
COSTLY = {
    "more than 200 times its size": (gzip.compress(HEAD + b"x" * 60_000) * 50, {"FREE": 100_000}),
    "more than 20 damaged parts": (gzip.compress(b"WARC/ and no more") * 50, {"MOST_DAMAGED": 20}),
    "more than 500 places in it look like records": (
        gzip.compress(HEAD) + b"\x1f\x8b\x08" * 2_000,
        {"MOST_PROBES": 500},
    ),
}


@pytest.mark.parametrize("words", COSTLY)
def test_an_archive_that_is_made_to_take_long_is_refused(words, tmp_path, monkeypatch):
    data, limits = COSTLY[words]
    for name, value in limits.items():
        monkeypatch.setattr(records, name, value)
    path = tmp_path / "hostile.warc.gz"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=f"hostile.warc.gz cannot be read: .*{words}"):
        build_index([path], tmp_path / "x.index", 2**20)


class CountedView(bytes):
    """Counts the bytes that are searched."""

    searched = 0

    def find(self, what, start=0, end=None):
        found = super().find(what, start, end)
        CountedView.searched += (found if found >= 0 else end) - start
        return found


@pytest.mark.parametrize(
    "record", [b"\nWARC/1.1 and no more", gzip.compress(b"WARC/ and no more")], ids=["plain", "compressed"]
)
def test_a_file_is_searched_once_however_damaged_it_is(record):
    view = CountedView(record * 2_000)
    CountedView.searched = 0
    skipped = list(records.read_records(view, 0, len(view), 2**20))
    assert len(skipped) >= 2_000
    assert CountedView.searched <= 3 * len(view)


async def test_the_archives_in_a_wacz_file_are_read(opened, tmp_path):
    path = tmp_path / "pages.wacz"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("archive/a.warc.gz", Written().add("/a", b"a").data)
        packed.writestr("pages/pages.jsonl", "{}")
        packed.writestr("archive/b.warc.gz", Written().add("/b", b"b").data)
    fetcher, report = opened(path)
    assert report.urls == 2
    assert [await body(fetcher, "/a"), await body(fetcher, "/b")] == [b"a", b"b"]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("archive/a.warc.gz", Written().add("/a", b"a").data)
    with pytest.raises(ConfigError, match="compressed by zip"):
        opened(path)


async def test_a_file_that_changed_after_it_was_indexed_fails_its_pages(opened, tmp_path):
    path = tmp_path / "pages.warc.gz"
    path.write_bytes(Written().add("/a", b"a").add("/b", b"b").data)
    fetcher, _ = opened(path)
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(FetchError, match=r"offset 0: no WARC record begins here; it was changed"):
        await body(fetcher, "/a")
