"""Files: what a crash, a person or a full disk leaves behind."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from silkline.errors import ConfigError, SinkUnavailable
from silkline.sinks import files, open_sink, record_of
from tests.sinks.conftest import FILES

every_file = pytest.mark.parametrize("kind", FILES)
page = "https://books.example/1"


def record(number, **item):
    return record_of(f"page-{number}", page, {"n": number, "text": 'two\nlines, "quoted"', **item})


def path_of(there):
    return Path(there.out.partition("?")[0])


def keys(there):
    return [item["_key"] for item in there.items()]


async def write_and_die(there, *records):
    """Write, and leave as a killed process does: the lock file stays, nothing is closed in good order."""
    sink = there.open()
    await sink.write(records)
    file = sink._writer._file
    file._forget()
    os.close(file._lock)
    sink._thread.shutdown()


async def write(there, *records):
    sink = there.open()
    await sink.write(records)
    await sink.close()


@every_file
async def test_a_write_that_was_cut_off_anywhere_leaves_no_trace(kind, place):
    there = place(kind)
    await write(there, record(0))
    path = path_of(there)
    await write_and_die(there, record(1), record(2))
    whole = path.read_bytes()
    await write(there, record(3, text="x" * 40))
    cut = path.read_bytes()[len(whole) :]
    for length in range(1, len(cut)):
        path.write_bytes(whole)
        sink = there.open()
        await write_and_die(there, record(4))
        before = path.read_bytes()
        with path.open("ab") as file:
            file.write(cut[:length])
        await sink.write([record(5)])
        await sink.close()
        found = keys(there)
        assert found[:4] == ["page-0", "page-1", "page-2", "page-4"]
        assert found[-1] == "page-5"
        assert path.read_bytes().startswith(before.removesuffix(b"\n]\n"))
    assert path.with_name(f"{path.name}.torn").exists()
    assert not path.with_name(f".{path.name}.silkline").exists()


@every_file
async def test_zeros_that_a_power_cut_left_are_moved_away(kind, place):
    there = place(kind)
    await write_and_die(there, record(0))
    with path_of(there).open("ab") as file:
        file.write(b"\0" * 5000)
    await write(there, record(1))
    assert keys(there) == ["page-0", "page-1"]


@every_file
async def test_an_old_mark_only_costs_a_longer_look(kind, place):
    """After a power cut the mark may be older than the file: it is not synced with every batch."""
    there = place(kind)
    await write_and_die(there, record(0))
    side = path_of(there).with_name(f".{path_of(there).name}.silkline")
    old = side.read_bytes()
    await write_and_die(there, record(1), record(2))
    await write_and_die(there, record(3))
    with path_of(there).open("ab") as file:
        file.write(b'{"n')
    for mark in (old, b"garbage of a broken disk"):
        side.write_bytes(mark)
        await write(there, record(4))
        assert keys(there)[:4] == ["page-0", "page-1", "page-2", "page-3"]


@every_file
async def test_a_file_that_is_emptied_is_begun_again(kind, place):
    there = place(kind)
    sink = there.open()
    await sink.write([record(0)])
    path_of(there).write_bytes(b"")
    await sink.write([record(1)])
    await sink.close()
    assert keys(there) == ["page-1"]


async def test_what_a_person_wrote_after_a_crash_stays(place):
    there = place("jsonl")
    await write_and_die(there, record(0))
    path = path_of(there)
    with path.open("ab") as file:
        file.write(b'{"_key": "page-1", "n": 1, "te\n')
        file.write(b'{"_key": "by hand"}\n{"_key": "also by hand"}')
    await write(there, record(2))
    assert keys(there) == ["page-0", "by hand", "also by hand", "page-2"]
    assert b'"te\n' in path.with_name(f"{path.name}.torn").read_bytes()


async def test_a_file_that_was_there_is_continued(place):
    there = place("jsonl")
    path_of(there).write_text('{"_key": "old"}\n{"_key": "no end of line"}')
    await write(there, record(0))
    assert keys(there) == ["old", "no end of line", "page-0"]


async def test_a_csv_file_that_was_there_keeps_its_columns_in_order(place):
    there = place("csv")
    path_of(there).write_bytes(b'text,_key,_url\n"a\n""b""",old,x')
    await write(there, record(0))
    assert path_of(there).read_bytes().startswith(b'text,_key,_url,n\r\n"a\n""b""",old,x,\r\n')
    assert keys(there) == ["old", "page-0"]


@every_file
async def test_a_mark_of_another_file_does_no_harm(kind, place):
    there = place(kind)
    await write_and_die(there, record(0), record(1))
    path = path_of(there)
    other = place(kind)
    await write(other, *(record(number, text="y" * number) for number in range(10, 60)))
    path.write_bytes(path_of(other).read_bytes())  # the same inode, other content
    await write(there, record(2))
    assert keys(there) == [*keys(other), "page-2"]


@every_file
async def test_a_file_that_is_moved_away_is_begun_again(kind, place):
    there = place(kind)
    sink = there.open()
    await sink.write([record(0)])
    path = path_of(there)
    path.rename(path.with_name("yesterday"))
    await sink.write([record(1)])
    await sink.close()
    assert keys(there) == ["page-1"]


async def test_a_link_to_a_file_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "books.csv").symlink_to(tmp_path / "real" / "books.csv")
    sink = open_sink(tmp_path / "books.csv")
    await sink.write([record(0)])
    await sink.write([record(1, more="x")])
    await sink.close()
    assert (tmp_path / "books.csv").is_symlink()
    assert len((tmp_path / "real" / "books.csv").read_bytes().split(b"\r\n")) == 4


async def test_folders_are_made(tmp_path):
    sink = open_sink(tmp_path / "a" / "b" / "books.jsonl.gz")
    await sink.write([record(0)])
    await sink.close()
    assert json.loads(gzip.decompress((tmp_path / "a" / "b" / "books.jsonl.gz").read_bytes()))["n"] == 0


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "books.jsonl").mkdir()
    with pytest.raises(ConfigError, match=r"books\.jsonl is not a regular file"):
        open_sink(tmp_path / "books.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file cannot be written: .*/file is a file, not a directory"):
        open_sink(tmp_path / "file" / "books.jsonl")
    with pytest.raises(ConfigError, match="cannot be written"):
        open_sink("/dev/null/books.jsonl")


def test_a_writer_that_is_frozen_in_its_turn_makes_the_others_wait_and_say_so(tmp_path, monkeypatch):
    path = tmp_path / "books.jsonl"
    holder = (
        "import sys, silkline.sinks.jsonl as j; from pathlib import Path; from silkline.sinks.files import SharedFile\n"
        "file = SharedFile(Path(sys.argv[1]), j.scan_lines, lines=True)\n"
        "with file.turn(): print('mine', flush=True); sys.stdin.read()\n"
    )
    frozen = subprocess.Popen(
        [sys.executable, "-c", holder, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert frozen.stdout.readline() == "mine\n"
        frozen.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(files, "LOCK_SECONDS", 0.05)
        with pytest.raises(SinkUnavailable, match="another process has held its lock"):
            open_sink(path)
    finally:
        frozen.kill()
        frozen.wait()
        frozen.stdin.close()
        frozen.stdout.close()
    monkeypatch.undo()
    open_sink(path)._writer.write([record(0)])
    assert len(path.read_text().splitlines()) == 1


def test_those_who_stay_and_those_who_come_share_one_lock(tmp_path, monkeypatch):
    path = tmp_path / "books.jsonl"
    stays, leaves = open_sink(path)._writer, open_sink(path)._writer
    leaves.close()  # and takes the lock file along
    comes = open_sink(path)._writer
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.05)
    with comes._file.turn(), pytest.raises(SinkUnavailable, match="another process has held its lock"):
        stays.write([record(0)])
    stays.write([record(1)])
    for writer in (stays, comes):
        writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["books.jsonl"]


FULL_DISK = """
import asyncio, random, resource, sys
from silkline.errors import SinkUnavailable
from silkline.sinks import open_sink, record_of

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def batch(number):
    return [record_of(f"page-{number}-{n}", "https://a.example/", {"n": n, "text": random.randbytes(2500).hex()}) for n in range(50)]

async def main():
    sink = open_sink(sys.argv[1])
    await sink.write(batch(0))
    limit(int(sys.argv[2]))
    for _ in range(2):
        try:
            await sink.write(batch(1))
        except SinkUnavailable as error:
            print(error)
    limit(resource.RLIM_INFINITY)
    await sink.write(batch(1))
    await sink.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", [*FILES, "folder", "sqlite", "parquet"])
def test_a_full_disk_stops_the_sink_until_there_is_room(kind, place):
    there = place(kind)
    size = {"jsonl.gz": 200_000, "jsonl.zst": 200_000, "folder": 100_000}.get(kind, 350_000)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL_DISK, there.out, str(size)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    failures = done.stdout.splitlines()
    assert failures
    assert all("cannot be written" in failure for failure in failures)
    found = keys(there)
    assert sorted(found) == sorted(f"page-{batch}-{n}" for batch in range(2) for n in range(50))


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
async def test_nothing_of_a_failed_write_stays(kind, place, monkeypatch):
    there = place(kind)
    sink = there.open()
    await sink.write([record(0)])
    before = path_of(there).read_bytes()

    def fail(file):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(files, "sync", fail)
        with pytest.raises(SinkUnavailable, match=r"cannot be written: Input/output error"):
            await sink.write([record(1)])
    assert path_of(there).read_bytes() == before
    await sink.write([record(1)])
    await sink.close()
    assert keys(there) == ["page-0", "page-1"]


def test_what_is_written_is_synced_before_the_write_returns(tmp_path):
    """Seen from outside: the system calls of a writer."""
    program = (
        "import asyncio, sys\nfrom silkline.sinks import open_sink, record_of\nfrom silkline.sinks import files\n"
        "steps = []\nsync, directory, write = files.sync, files.sync_directory, files.write_all\n"
        "files.sync = lambda f: (steps.append('sync'), sync(f))\n"
        "files.sync_directory = lambda p: (steps.append('directory'), directory(p))\n"
        "files.write_all = lambda f, d: (steps.append('write'), write(f, d))\n"
        "async def main():\n"
        "    sink = open_sink(sys.argv[1])\n    steps.append('open')\n"
        "    await sink.write([record_of('k', 'u', {'a': 1})])\n    print(*steps)\n    await sink.close()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "x.jsonl"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["directory", "sync", "directory", "open", "write", "sync"]


@pytest.mark.parametrize("safe", [True, False])
async def test_formulas_in_csv_files_are_disarmed_by_choice(tmp_path, safe):
    path = tmp_path / "items.csv"
    for _ in range(2):
        sink = open_sink(f"{path}?safe={'true' if safe else 'false'}")
        item = {"=cmd|' /C calc'!A0": "@SUM(A1)", "price": -3, "plain": "a=b", "plus": "+1"}
        await sink.write([record_of("1-0", page, item)])
        await sink.close()
    header, *rows = path.read_text().splitlines()
    dash = "'" if safe else ""
    assert header == f"{dash}=cmd|' /C calc'!A0,price,plain,plus"
    assert rows == [f"{dash}@SUM(A1),-3,a=b,{dash}+1"] * 2
