"""Files of entries: every format, and what is no entry, in bounded memory."""

from __future__ import annotations

import gzip
import io
import random
import sys
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from silkline import Request
from silkline.core.entry import COLUMNS, BadEntry, read_entry
from silkline.core.request import check
from silkline.errors import ConfigError
from silkline.worker.feeds import lines
from silkline.worker.feeds.entry_file import FORMATS, format_of, open_lines, open_parquet
from silkline.worker.feeds.lines import LineReader, naming

PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}
FULL = Request(
    "https://a.example/1", "POST", {"A": "b"}, b"x", {"n": 1, "sku": "s"}, 5, 1, "product", True, 99.5,
    cookies={"c": "d"}, auth=("me", "pw"), timeout=2.5, download_slot="slot-1", retries=[1, 2.5], expires=1769814000.0, args={"category": "tea"}, session="main",
)  # fmt: skip


def entries_of(data, kind=None, *, most=1000):
    """All entries of a file, as (line, request or reason)."""
    reader = open_lines(io.BufferedReader(io.BytesIO(data)), "file", kind)
    found = []
    while not reader.ended:
        found += reader.read(most)
    return [(entry.place, str(entry.item) if isinstance(entry.item, BadEntry) else entry.item) for entry in found]


def csv_of(rows):
    return "\r\n".join(rows).encode()


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("kind", ["txt", None])
def test_lines_are_urls_or_json(kind, pack):
    data = b'\xef\xbb\xbfhttps://a.example/1\r\n\n# no\n  # no\n  {"url": "https://a.example/2", "priority": 3} \nhttps://a.example/3'
    assert entries_of(PACK[pack](data), kind) == [
        (1, "https://a.example/1"),
        (5, Request("https://a.example/2", priority=3)),
        (6, "https://a.example/3"),
    ]


def test_csv_has_the_columns_of_entries():
    names = "url,method,headers,body,meta,meta.sku,priority,depth,handler,dont_filter,not_before,cookies,auth,timeout,download_slot,retries,expires,args,session"
    row = 'https://a.example/1,post,"{""A"": ""b""}",x,"{""n"": 1}",s,5,1,product,true,99.5,"{""c"": ""d""}",me:pw,2.5,slot-1,"[1, 2.5]",2026-01-30T23:00:00Z,"{""category"": ""tea""}",main'
    [(line, request)] = entries_of(csv_of([names, row]), "csv")
    check(request)
    assert (line, request) == (2, FULL)
    assert set(COLUMNS) - set(names.split(",")) == {"max_attempts"}
    assert entries_of(csv_of(["url,max_attempts", "https://a.example/,3"])) == [
        (2, Request("https://a.example/", max_attempts=3))
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("pack", PACK)
def test_csv_in_every_dialect(delimiter, pack):
    rows = [
        "url,priority",
        '"https://a.example/a,b;c\td",',
        "https://a.example/2,-3",
        "",
        '"https://a.example/""3""",1',
    ]
    rows = [row if row.startswith('"') and row.endswith(",") else row.replace(",", delimiter) for row in rows]
    rows[1] = rows[1][:-1] + delimiter
    assert entries_of(PACK[pack](b"\xef\xbb\xbf" + csv_of(rows))) == [
        (2, "https://a.example/a,b;c\td"),
        (3, Request("https://a.example/2", priority=-3)),
        (5, Request('https://a.example/"3"', priority=1)),
    ]


def test_a_record_of_csv_may_have_several_lines_and_a_quote_that_is_not_closed_costs_one():
    rows = [
        "url,body,priority",
        'https://a.example/1,"one\ntwo",1',
        'https://a.example/2,"open,2',
        "https://a.example/3,,3",
    ]
    found = entries_of("\n".join(rows).encode())
    assert found[0] == (2, Request("https://a.example/1", body=b"one\ntwo", priority=1))
    assert found[1][0] == 4
    assert "not valid CSV: unexpected end of data" in found[1][1]
    assert found[2:] == [(5, Request("https://a.example/3", priority=3))]


BAD_ROWS = {
    "https://a.example/": "it has 1 values, but the file has 4 columns",
    "https://a.example/,1,,,": "it has 5 values, but the file has 4 columns",
    "https://a.example/,high,,": '"priority" is wrong',
    ",1,,": 'it has no "url"',
    "https://a.example/,,nothing,": '"meta" must be a JSON object',
    "https://a.example/,,,1": '"retries" must be a JSON array',
    'https://a.example/,,"{""a"": ' + "[" * 3000 + "]" * 3000 + '}",': '"meta" must be a JSON object',
    "https://a.example/\0,,,": "",  # the frontier refuses it
}


def test_a_bad_row_says_what_is_wrong_and_can_be_read_again():
    data = csv_of(["url,priority,meta,retries", *BAD_ROWS, "https://a.example/last,,,"])
    found = entries_of(data, "csv")
    assert [line for line, _ in found] == list(range(2, 3 + len(BAD_ROWS)))
    for (_, reason), words in zip(found, BAD_ROWS.values(), strict=False):
        assert words in reason
    assert found[-1][1] == "https://a.example/last"
    reader = open_lines(io.BufferedReader(io.BytesIO(data)), "file", "csv")
    for entry in reader.read(6):
        with pytest.raises(BadEntry):
            read_entry(entry.data)


BAD_HEADERS = {
    b"URL,Name": 'no column "url"; its columns are: URL, Name',
    b"": "file has no columns: its first line must name them",
    b"url,name": 'a column "name", which is no field',
    b"url,priority,url": 'the column "url" twice',
    b"\x89PNG\r\n\x1a\n\0\0\0": 'no column "url"',
    b"x" * 3_000_000: 'no column "url"',
}


@pytest.mark.parametrize(("header", "words"), BAD_HEADERS.items(), ids=range(len(BAD_HEADERS)))
def test_a_csv_file_with_wrong_columns_is_refused(header, words):
    with pytest.raises(ConfigError, match=words):
        entries_of(header + b"\nhttps://a.example/,1,2", "csv")


@pytest.mark.parametrize("first", [b"url", b"https://a.example/,url", b"url,what", b'{"url": "https://a.example/"}'])
def test_only_a_clear_header_makes_a_file_csv(first):
    assert entries_of(first + b"\nhttps://a.example/x,1")[1] == (2, "https://a.example/x,1")


@pytest.mark.parametrize("pack", PACK)
def test_a_line_of_a_gigabyte_is_refused_in_little_memory(pack):
    """A whole gigabyte for the plain file; 200 MB where the time would go to the compressor."""
    size = 10**9 if not pack else 2 * 10**8
    good = [b"https://a.example/1\n", b"\nhttps://a.example/2\n"]
    if pack:
        stream = io.BufferedReader(io.BytesIO(PACK[pack](good[0] + b"x" * size + good[1])))
    else:
        stream = Endless(good[0], size, good[1])
    tracemalloc.start()
    try:
        reader = open_lines(stream, "file", "txt")
        found = []
        while not reader.ended:
            found += reader.read(1000)
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()
    assert [entry.place for entry in found] == [1, 2, 3]
    assert f"it has {size:,} bytes, the limit is 1,048,576" in str(found[1].item)
    assert len(found[1].data) < 50_000


class Endless:
    """A stream with a long line, which is made while it is read."""

    def __init__(self, before, size, after):
        self._parts = [before, *[b"x" * 2**18] * (size // 2**18), b"x" * (size % 2**18), after][::-1]

    def peek(self, _size=0):
        return self._parts[-1]

    def read1(self, _size):
        return self._parts.pop() if self._parts else b""


def test_a_file_that_never_gets_to_a_next_line_is_given_up(monkeypatch):
    monkeypatch.setattr(lines, "MOST_BARREN", 10**7)
    with pytest.raises(lines.EndlessLine, match="line 2 has more than"):
        entries_of(gzip.compress(b"https://a.example/\n" + b"x" * 2 * 10**7), "txt")


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv"])
def test_binary_garbage_is_refused_line_by_line(kind):
    garbage = random.Random(7).randbytes(20_000).replace(b"#", b"").replace(b'"', b"")
    head = b"url,priority\n" if kind == "csv" else b""
    last = b"https://a.example/,1" if kind == "csv" else b"https://a.example/"
    *bad, (_, good) = entries_of(head + garbage + b"\n" + last, kind)
    assert getattr(good, "url", good) == "https://a.example/"
    assert len(bad) > 50


def test_wrong_json_is_refused_with_its_line():
    rows = [
        '["url"]',
        "{}",
        "1",
        '{"url": 1}',
        "{" * 5000,
        "[" * 100_000,
        '{"url": "https://a.example/", "x": 1}',
        '"x"',
    ]
    found = entries_of("\n".join([*rows, '{"url": "https://a.example/"}']).encode(), "jsonl")
    assert found[-1] == (9, "https://a.example/")
    assert ['no "url"' in reason for _, reason in found[:2]] == [True, True]
    assert 'unknown field "x"' in found[6][1]


@pytest.mark.parametrize("pack", [".gz", ".zst"])
@pytest.mark.parametrize("damage", ["cut", "garbage"])
@pytest.mark.parametrize("kind", ["txt", "csv"])
def test_a_broken_tail_keeps_what_is_before_it(pack, damage, kind):
    head = "url,priority\n" if kind == "csv" else "\n"
    comma = "," if kind == "csv" else ""
    whole = (head + "\n".join(f"https://a.example/{number * 7919}{comma}" for number in range(20_000))).encode()
    packed = PACK[pack](whole)
    broken = packed[: len(packed) // 2] if damage == "cut" else packed + b"garbage"
    found = []
    reader = open_lines(io.BufferedReader(io.BytesIO(broken)), "file", kind)

    def read_all():
        with naming("file"):
            while not reader.ended:
                found.extend(reader.read(4000))

    with pytest.raises(ConfigError, match="file is a damaged"):
        read_all()
    lines_read = [entry.place for entry in found]
    assert lines_read == list(range(2, reader.position.line + 1))
    assert len(found) > 5_000 if damage == "cut" else len(found) >= 19_999


@pytest.mark.parametrize("pack", [".gz", ".zst"])
def test_several_frames_are_one_file(pack):
    data = PACK[pack](b"https://a.example/1\nhttps://a.ex") + PACK[pack](b"ample/2\n") + PACK[pack](b"")
    assert [url for _, url in entries_of(data)] == ["https://a.example/1", "https://a.example/2"]


def test_parquet_has_typed_columns(tmp_path):
    rows = [
        {"url": "https://a.example/1", "priority": 5, "meta": {"n": [1]}, "retries": [1.0, 2.0]},
        {"url": "https://a.example/2", "priority": None, "meta": None, "retries": None},
        {"url": None, "priority": 1, "meta": None, "retries": None},
        {"url": "https://a.example/4", "priority": 4, "meta": None, "retries": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet", row_group_size=2)
    for start in range(5):
        reader = open_parquet(tmp_path / "x.parquet")
        reader.skip(start)
        found = []
        while not reader.ended:
            found += reader.read(3)
        assert [entry.place for entry in found] == [1, 2, 3, 4][start:]
    reader = open_parquet(tmp_path / "x.parquet")
    items = [entry.item for entry in reader.read(10)]
    assert items[0] == Request("https://a.example/1", priority=5, meta={"n": [1]}, retries=[1.0, 2.0])
    assert (items[1], items[3]) == ("https://a.example/2", Request("https://a.example/4", priority=4))
    assert 'no "url"' in str(items[2])


@pytest.mark.parametrize("contents", [b"", b"\r\n", b"\n\n"])
def test_a_csv_file_without_a_header_has_no_columns(contents):
    with pytest.raises(ConfigError, match=r"x\.csv has no columns: its first line must name them"):
        open_lines(io.BufferedReader(io.BytesIO(contents)), "x.csv", "csv")


def test_parquet_has_times_that_python_lacks(tmp_path):
    columns = {
        "not_before": pa.array([1_800_000_000_123_456_789, None], pa.timestamp("ns")),
        "meta.a": pa.array([1, 1_800_000_000_123_456_789], pa.timestamp("ns", "UTC")),
        "meta.b": pa.array([1_234, None], pa.duration("ns")),
        "meta.c": pa.array([1_234, None], pa.time64("ns")),
        "meta.d": pa.array([2**31 - 1, None], pa.date32()),
        "meta.e": pa.array([2**62, None], pa.timestamp("us")),
        "expires": pa.array([None, 2**31 - 1], pa.date32()),
    }
    pq.write_table(pa.table({"url": ["https://a.example/"] * 2, **columns}), tmp_path / "x.parquet")
    first, second = open_parquet(tmp_path / "x.parquet").read(5)
    assert first.item.not_before == 1_800_000_000.123456
    assert first.item.meta["a"] == "1970-01-01T00:00:00+00:00"
    assert "<value out of range" in first.item.meta["d"]
    assert str(second.item).startswith('its "expires" must be a unix time in seconds or a date')


def test_what_is_no_parquet_file_is_reported(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 is not enough")
    with pytest.raises(ConfigError, match=r"x\.parquet is not a readable Parquet file"):
        open_parquet(path)
    pq.write_table(pa.table({"name": ["a"]}), path)
    with pytest.raises(ConfigError, match='no column "url"'):
        open_parquet(path)
    monkeypatch.delitem(sys.modules, "silkline.worker.feeds.parquet_file")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match=r"needs the package pyarrow: pip install 'silkline\[parquet\]'"):
        open_parquet(path)


def test_the_format_is_that_of_the_name():
    names = {f"a.{kind}{pack}": kind for kind in FORMATS if kind != "parquet" for pack in PACK}
    assert {name: format_of(name) for name in names} == names
    assert (format_of("X.NDJSON.GZ"), format_of("a.tsv"), format_of("urls"), format_of("a.parquet")) == (
        "jsonl", "csv", None, "parquet",
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"Parquet files are already compressed"):
        format_of("a.parquet.gz")


class Trickle(io.BytesIO):
    """Returns a few bytes at a time, as a pipe may."""

    def read1(self, _size=-1):
        return super().read1(3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b""))), st.integers(1, 5), st.booleans())
def test_lines_and_digest_are_the_same_however_they_are_read(given_lines, step, ends):
    data = b"\n".join(given_lines) + (b"\n" if ends and given_lines else b"")
    reader, found = LineReader(Trickle(data)), []
    while some := reader.take(step):
        found += some
    expected = data.split(b"\n")
    assert found == (expected if expected[-1] else expected[:-1])
    whole = LineReader(io.BytesIO(data))
    whole.skip(len(found))
    assert (whole.number, whole.digest) == (len(found), reader.digest)
