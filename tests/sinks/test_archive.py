"""Archives are valid for warcio, contain what was received, and survive kills."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from silkline.errors import ConfigError
from silkline.sinks import Exchange, open_sink, record_of

PAGE = b"<h1>Emma</h1>" * 100


def exchange(path="/", body=PAGE, headers=None, **changes):
    given = {
        "method": "GET", "url": f"https://books.example{path}", "sent": [("User-Agent", "test/1"), ("Cookie", "id=7")],
        "request_body": b"", "status": 200,
        "headers": [("Content-Type", "text/html"), ("Content-Length", str(len(body)))] if headers is None else headers,
        "http_version": "HTTP/1.1", "body": body, "is_decoded": False, "is_cut": False, "began": 1768000000.25, "address": "192.0.2.7",
    }  # fmt: skip
    return Exchange(**{**given, **changes})


def records(path):
    """What warcio reads: kind, fields, HTTP head and payload of each record."""
    found = []
    with Path(path).open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            fields = dict(record.rec_headers.headers)
            found.append((record.rec_type, fields, record.http_headers, record.raw_stream.read()))
    return found


def assert_valid(path):
    """As ``warcio check`` does: every digest is right, and every record of a compressed file is its own member."""
    checker = Checker(type("Options", (), {"inputs": [str(path)], "verbose": False})())
    checker.process_all()
    assert checker.exit_value == 0


async def archived(out, *batches):
    sink = open_sink(out)
    for batch in batches:
        await sink.archive(batch)
    await sink.close()
    return records(str(out).partition("?")[0])


@pytest.fixture(params=["pages.warc.gz", "pages.warc"])
def out(request, tmp_path):
    return tmp_path / request.param


async def test_an_exchange_is_a_response_and_a_request_that_warcio_accepts(out):
    info, response, request = await archived(out, [exchange("/emma?a=1")])
    assert_valid(out)
    assert info[0] == "warcinfo"
    assert b"software: Silkline/" in info[3]
    kind, fields, head, body = response
    assert kind == "response"
    assert fields["WARC-Target-URI"] == "https://books.example/emma?a=1"
    assert fields["WARC-Date"] == "2026-01-09T23:06:40.250000Z"
    assert fields["WARC-IP-Address"] == "192.0.2.7"
    assert fields["WARC-Payload-Digest"].startswith("sha256:")
    assert head.statusline == "200 OK"
    assert head.headers == [("Content-Type", "text/html"), ("Content-Length", "1300")]
    assert body == PAGE
    assert request[0] == "request"
    assert request[1]["WARC-Concurrent-To"] == fields["WARC-Record-ID"]
    assert request[2].statusline == "/emma?a=1 HTTP/1.1"
    if out.suffix == ".gz":
        assert gzip.decompress(out.read_bytes()).count(b"WARC/1.1\r\n") == 3


async def test_headers_of_the_wire_that_are_not_true_of_the_stored_body_get_another_name(out):
    packed = gzip.compress(PAGE)
    chunked = [("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip"), ("X-A", "1"), ("X-A", "2")]
    _, coded, _, decoded, _, head, _ = await archived(
        out,
        [
            exchange("/1", packed, chunked),
            exchange("/2", PAGE * 2, [("Content-Encoding", "gzip"), ("Content-Length", "99")], is_decoded=True),
            exchange("/3", b"", [("Content-Length", "1300")], method="HEAD"),
        ],
    )
    assert_valid(out)
    assert coded[3] == packed
    assert coded[2].headers == [
        ("X-Crawler-Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip"), ("X-A", "1"), ("X-A", "2"),
        ("Content-Length", str(len(packed))),
    ]  # fmt: skip
    assert decoded[2].headers == [
        ("X-Crawler-Content-Encoding", "gzip"), ("X-Crawler-Content-Length", "99"), ("Content-Length", "2600"),
    ]  # fmt: skip
    assert head[2].headers == [("Content-Length", "1300")]


async def test_a_payload_that_the_file_has_becomes_a_revisit_of_it(out):
    found = await archived(out, [exchange("/a"), exchange("/b")], [exchange("/c"), exchange("/small", b"x")])
    assert_valid(out)
    kinds = [kind for kind, *_ in found if kind not in ("request", "warcinfo")]
    assert kinds == ["response", "revisit", "revisit", "response"]
    for _, fields, head, body in found[3:6:2]:
        assert fields["WARC-Refers-To-Target-URI"] == "https://books.example/a"
        assert fields["WARC-Refers-To-Date"] == found[1][1]["WARC-Date"]
        assert fields["WARC-Profile"].endswith("identical-payload-digest")
        assert head.statusline == "200 OK"
        assert body == b""


async def test_a_body_that_was_cut_and_a_304_say_so(out):
    _, cut, _, unchanged, _ = await archived(
        out, [exchange("/1", is_cut=True), exchange("/2", b"", [("ETag", "7")], status=304)]
    )
    assert_valid(out)
    assert (cut[0], cut[1]["WARC-Truncated"], cut[3]) == ("response", "length", PAGE)
    assert unchanged[0] == "revisit"
    assert unchanged[1]["WARC-Profile"].endswith("server-not-modified")


async def test_credentials_of_requests_are_stored_only_on_demand(out):
    secret = exchange(
        "/login", url="https://me:pw@books.example/login", method="POST", request_body=b"password=1234",
        sent=[("User-Agent", "test/1"), ("Cookie", "id=7"), ("Authorization", "Basic bWU6cHc="), ("X-Api-Key", "8")],
    )  # fmt: skip
    *_, request = await archived(out, [secret])
    assert request[2].headers == [("Host", "books.example"), ("User-Agent", "test/1")]
    assert (request[1]["WARC-Truncated"], request[3]) == ("unspecified", b"")
    assert b"pw@" not in out.read_bytes()
    *_, request = await archived(f"{out}?credentials=true", [secret])
    assert [name for name, _ in request[2].headers] == [
        "Host", "User-Agent", "Cookie", "Authorization", "X-Api-Key", "Content-Length",
    ]  # fmt: skip
    assert request[3] == b"password=1234"
    assert_valid(out)


async def test_a_header_cannot_break_a_record(out):
    _, response, _ = await archived(out, [exchange(headers=[("X-A", "1\r\n\r\nWARC/1.1\r\nX: \u20ac")])])
    assert_valid(out)
    assert response[2].headers == [("X-A", "1    WARC/1.1  X: ?")]


async def test_an_archive_stores_no_items_and_has_only_its_own_option(out):
    sink = open_sink(out)
    await sink.write([record_of("1", "https://books.example/", {"title": "Emma"})])
    await sink.archive([exchange()])
    await sink.empty()
    assert out.read_bytes() == b""
    await sink.archive([exchange()])
    await sink.close()
    assert [kind for kind, *_ in records(out)] == ["warcinfo", "response", "request"]
    with pytest.raises(ConfigError, match="supported: credentials"):
        open_sink(f"{out}?key=true")


async def test_another_process_may_replace_the_file(out):
    """Then a revisit would refer to a page that it does not have."""
    sink = open_sink(out)
    await sink.archive([exchange("/a")])
    out.rename(out.with_name("old"))
    await sink.archive([exchange("/b")])
    await sink.close()
    assert [kind for kind, *_ in records(out)] == ["warcinfo", "response", "request"]


@pytest.mark.parametrize("torn", ["head", "body"])
async def test_a_record_that_was_cut_off_is_moved_aside(out, torn):
    """Its lock file is what a killed writer leaves."""
    await archived(out, [exchange("/a")])
    sink = open_sink(out)
    await sink.archive([exchange("/b", PAGE + b"b")])
    before = out.stat().st_size
    await sink.archive([exchange("/c", random.Random(1).randbytes(5000))])
    lock = out.with_name(f".{out.name}.silkline")
    mark = lock.read_bytes()
    await sink.close()
    os.truncate(out, before + (100 if torn == "head" else 2000))
    lock.write_bytes(mark[:21] + b"%020d\n" % before)
    found = await archived(out, [exchange("/d", PAGE + b"d")])
    assert_valid(out)
    assert [fields["WARC-Target-URI"][-2:] for kind, fields, *_ in found if kind == "response"] == ["/a", "/b", "/d"]
    assert out.with_name(f"{out.name}.torn").stat().st_size == (100 if torn == "head" else 2000)


@pytest.mark.parametrize("name", ["pages.warc.gz", "pages.warc"])
def test_killed_writers_and_two_at_once_leave_a_valid_archive(name, tmp_path):
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path / name)], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert_valid(tmp_path / name)
    found = Counter(fields["WARC-Target-URI"] for kind, fields, *_ in records(tmp_path / name) if kind == "response")
    acknowledged = json.loads(done.stdout)
    assert len(acknowledged) > 8
    assert set(acknowledged) <= set(found)


def write_until_killed(out, writer):
    """Archive page after page, in a fork; returns the process id and a pipe of the URLs that are durable."""
    reading, writing = os.pipe()
    if child := os.fork():
        os.close(writing)
        return child, os.fdopen(reading)
    asyncio.run(_write(out, writer, writing))
    os._exit(0)


async def _write(out, writer, pipe):
    sink = open_sink(out)
    for number in range(10**6):
        path = f"/{writer}/{number}"
        await sink.archive([exchange(path, random.Random(path).randbytes(30_000))])
        os.write(pipe, f"https://books.example{path}\n".encode())


if __name__ == "__main__":
    acknowledged = []
    for turn in range(4):
        writers = [write_until_killed(sys.argv[1], f"{turn}-{number}") for number in range(2)]
        for _, pipe in writers:
            acknowledged += [pipe.readline().strip() for _ in range(3)]
        for child, _ in writers:
            os.kill(child, signal.SIGKILL)
        for child, pipe in writers:
            os.waitpid(child, 0)
            acknowledged += pipe.read().split()
    asyncio.run(open_sink(sys.argv[1]).close())
    print(json.dumps(acknowledged))
