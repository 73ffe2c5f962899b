"""The file in which links wait: what it takes of one host, and in which order it gives them back."""

import os
import signal
import sqlite3
import threading
from collections import Counter

import msgspec
import pytest

from silkline import Politeness, Request, SyncFrontier
from silkline.core.url import parse
from silkline.errors import ConfigError
from silkline.frontier.overflow import LateOverflow, SqliteOverflow
from silkline.ops.crawl_metrics import of_stats
from silkline.testing import MemoryFrontier

FIRST_VERSION = """
CREATE TABLE store (id TEXT PRIMARY KEY, format INTEGER NOT NULL, version INTEGER NOT NULL DEFAULT 0);
CREATE TABLE waiting (
    id INTEGER PRIMARY KEY, crawl TEXT NOT NULL, request BLOB NOT NULL, batch INTEGER, taken INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX waiting_by_crawl ON waiting (crawl, batch, id);
INSERT INTO store VALUES ('abc', 1, 7);
"""


def pages(host, count):
    return [Request(f"https://{host}.example/{number}") for number in range(count)]


def hosts_of(rows):
    return Counter(parse(request.url).host for _, request in rows)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "overflow.db"


@pytest.mark.parametrize("before", [None, 0o644, 0o666])
def test_only_its_user_may_read_the_file(file, before):
    """Requests may hold cookies. A file that an earlier version made for all to read is closed, and so is what SQLite puts beside."""
    mask = os.umask(0)
    try:
        if before is not None:
            file.touch()
            file.chmod(before)
        store = SqliteOverflow(file)
        store.put("books", pages("a", 3))
        modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
        store.close()
    finally:
        os.umask(mask)
    assert modes
    assert set(modes.values()) == {0o600}, modes


def test_a_host_that_finds_no_room_does_not_hold_up_those_behind_it(file):
    store = SqliteOverflow(file)
    store.put("books", pages("trap", 5000))
    for number in range(3):
        store.put("books", pages(f"good{number}", 50))
    for _ in range(5):
        rows = store.take("books", 1000)
        trap = [row for row, request in rows if "trap" in request.url]
        store.settle([row for row, _ in rows if row not in trap], trap)
    assert store.count("books") == 5000
    assert hosts_of(store.take("books", 1000)) == {"trap.example": 1000}


def test_a_download_slot_waits_as_a_host_and_is_given_back(file):
    store = SqliteOverflow(file)
    slots = [Request(f"https://a.example/{n}", download_slot=f"proxy-{n % 2}") for n in range(4)]
    store.put("books", [*slots, Request("https://a.example/9")])
    assert {host for (host,) in store._database.execute("SELECT host FROM hosts")} == {
        "proxy-0",
        "proxy-1",
        "a.example",
    }
    assert sorted(r.url for _, r in store.take("books", 10) if r.download_slot) == [r.url for r in slots]


def test_hosts_take_turns_and_each_gives_its_oldest_first(file):
    store = SqliteOverflow(file)
    for number in range(250):
        store.put("books", pages(f"h{number}", 20))
    taken = [store.take("books", 1000) for _ in range(5)]
    assert [len(hosts_of(rows)) for rows in taken] == [100, 100, 100, 100, 100]
    assert len(hosts_of([row for rows in taken[:3] for row in rows])) == 250
    firsts = {request.url.rpartition("/")[2] for _, request in taken[0]}
    assert firsts == {str(number) for number in range(10)}


def test_of_one_host_many_wait_and_the_others_are_refused_by_their_positions(file):
    store = SqliteOverflow(file, per_host=10)
    assert store.put("books", pages("good", 3) + pages("trap", 12)) == [13, 14]
    assert store.put("books", pages("trap", 2) + pages("good", 1)) == [0, 1]
    assert store.put("films", pages("trap", 10)) == []
    rows = store.take("books", 1000)
    assert hosts_of(rows) == {"good.example": 4, "trap.example": 10}
    store.settle([row for row, _ in rows], [])
    assert store.put("books", pages("trap", 2)) == []
    assert (store.count("books"), store.count("films")) == (2, 10)
    with pytest.raises(ConfigError, match="per_host"):
        SqliteOverflow(file, per_host=0)


def test_a_file_of_the_first_version_continues(file):
    with sqlite3.connect(file) as old:
        old.executescript(FIRST_VERSION)
        rows = [("books", msgspec.msgpack.encode(request)) for request in pages("old", 3)]
        old.executemany("INSERT INTO waiting (crawl, request) VALUES (?, ?)", rows)
    store = SqliteOverflow(file)
    store.put("books", pages("new", 2))
    assert store.count("books") == 5
    with sqlite3.connect(file) as old:  # a process of that version is still at work
        old.execute("INSERT INTO waiting (crawl, request) VALUES (?, ?)", rows[0])
    taken = store.take("books", 1000)
    assert hosts_of(taken) == {"old.example": 4, "new.example": 2}
    store.settle([row for row, _ in taken], [])
    assert store.count("books") == 0
    assert SqliteOverflow(file).name == "abc"


def in_child(use):
    """Whether a forked child that does this ends well."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    code = 1
    try:
        use()
        code = 0
    finally:
        os._exit(code)


@pytest.mark.parametrize("kind", [SqliteOverflow, LateOverflow])
def test_a_forked_child_opens_the_file_for_itself(kind, file):
    store = kind(file)
    store.put("books", pages("parent", 10))
    connection = getattr(store, "_store", store)._database

    def use():
        store.put("books", pages("child", 10))
        assert len(store.take("books", 10)) == 10
        assert getattr(store, "_store", store)._database is not connection
        store.close()
        assert connection.execute("SELECT 1").fetchone() == (1,)  # that of its parent is not closed

    assert in_child(use)
    assert store.count("books") == 20
    store.put("books", pages("parent", 10))
    store.close()
    assert sqlite3.connect(file).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_child_is_not_held_up_by_what_another_thread_did_when_it_was_forked(file):
    store, late = SqliteOverflow(file), LateOverflow(file)
    held, end = threading.Event(), threading.Event()

    def hold():
        with store._lock, late._lock:
            held.set()
            end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def use():
        signal.alarm(20)
        assert store.count("books") == 0
        assert late.count("books") == 0

    fine = in_child(use)
    end.set()
    thread.join()
    assert fine


def test_what_is_refused_is_counted_by_crawl(file):
    store = SqliteOverflow(file, per_host=5)
    store.put("books", pages("trap", 8))
    store.put("books", pages("trap", 1) + pages("good", 2))
    store.put("films", pages("trap", 6))
    assert store.tally("books")[1:] == (7, 4)
    assert SqliteOverflow(file).tally("films")[1:] == (5, 1)


def test_a_crawl_reports_how_many_links_were_dropped_for_want_of_room_on_disk(file, valkey, crawl):
    """Also those that another process has dropped."""
    store = SqliteOverflow(file, per_host=5)
    pace = Politeness(delay=0, concurrency=100)
    with SyncFrontier.open(valkey.url, crawl=crawl, capacity=1, politeness=pace, overflow=store) as frontier:
        frontier.enqueue("https://start.example/")
        [lease] = frontier.claim(1)
        frontier.complete(lease, [request.url for request in pages("trap", 20)])
        stats = frontier.admin.stats()
        assert (stats.overflow, stats.overflow_refused) == (5, stats.turned_away - 5)
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        assert frontier.admin.stats().overflow_refused == stats.overflow_refused > 0
    samples = {family.name: family.samples[0].value for family in of_stats(stats) if family.samples}
    assert samples["silkline_overflow_refused_total"] == stats.overflow_refused


async def test_a_crawl_in_memory_reports_it_too(file, crawl):
    store = SqliteOverflow(file, per_host=5)
    frontier = await MemoryFrontier.open(crawl=crawl, capacity=1, politeness=Politeness(delay=0), overflow=store)
    await frontier.enqueue("https://start.example/")
    [lease] = await frontier.claim(1)
    await frontier.complete(lease, [request.url for request in pages("trap", 20)])
    stats = await frontier.admin.stats()
    assert (stats.overflow, stats.overflow_refused) == (5, stats.turned_away - 5)
    assert stats.overflow_refused > 0
