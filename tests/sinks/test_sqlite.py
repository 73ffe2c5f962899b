"""SQLite: types, locks, and files that are none."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from silkline.errors import ConfigError, SinkUnavailable
from silkline.sinks import open_sink
from tests.sinks.making import record


async def test_columns_of_sqlite_get_types_and_keep_their_indexes_when_they_lose_one(tmp_path):
    sink = open_sink(f"sqlite:///{tmp_path}/books.db")
    await sink.write([record(0, title="Emma", price=1.5, sold=True, tags=["a"])])
    database = sqlite3.connect(tmp_path / "books.db")
    shape = dict(database.execute("SELECT name, type FROM pragma_table_info('items')"))
    assert shape == {
        "_key": "TEXT", "_url": "TEXT", "n": "INTEGER", "title": "TEXT", "price": "REAL", "sold": "BOOLEAN", "tags": "JSON"
    }  # fmt: skip
    database.execute("CREATE INDEX by_n ON items (n)")
    await sink.write([record(1, price="007")])
    await sink.close()
    assert database.execute("SELECT price FROM items ORDER BY n").fetchall() == [(1.5,), ("007",)]
    assert "by_n" in str(database.execute("EXPLAIN QUERY PLAN SELECT * FROM items WHERE n = 1").fetchall())
    assert database.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    database.close()


async def test_a_locked_database_is_unavailable_until_it_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr("silkline.sinks.sqlite.BUSY_SECONDS", 0.05)
    sink = open_sink(f"sqlite:///{tmp_path}/books.db")
    other = sqlite3.connect(tmp_path / "books.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SinkUnavailable, match="database is locked"):
        await sink.write([record(0)])
    other.execute("COMMIT")
    await sink.write([record(0)])
    await sink.close()
    assert other.execute("SELECT n FROM items").fetchall() == [(0,)]
    other.close()


async def test_a_database_that_another_process_is_just_making_is_waited_for(tmp_path):
    """SQLite answers "locked" at once, without its timeout, to whoever turns WAL mode on beside a writer."""
    other = sqlite3.connect(tmp_path / "books.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    done = threading.Timer(0.3, other.execute, ["COMMIT"])
    done.start()
    sink = open_sink(f"sqlite:///{tmp_path}/books.db")
    assert not done.is_alive() or not other.in_transaction
    await sink.write([record(0)])
    await sink.close()
    other.close()


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "books.db").write_text("no database, but long enough to be told from an empty one" * 10)
    with pytest.raises(ConfigError, match="not a database"):
        open_sink(f"sqlite:///{tmp_path}/books.db")
    database = sqlite3.connect(tmp_path / "others.db")
    database.execute("CREATE TABLE items (id)")
    database.close()
    with pytest.raises(ConfigError, match="has no column _key"):
        open_sink(f"sqlite:///{tmp_path}/others.db")


async def test_a_table_that_somebody_made_is_used_as_it_is(tmp_path):
    database = sqlite3.connect(tmp_path / "books.db", isolation_level=None)
    database.execute(
        "CREATE TABLE items (id INTEGER PRIMARY KEY, \"_key\" TEXT UNIQUE, at TEXT NOT NULL DEFAULT 'now', sku REAL)"
    )
    sink = open_sink(f"sqlite:///{tmp_path}/books.db")
    for turn in range(2):
        await sink.write([record(0, turn=turn), record(1, sku="007")])
    await sink.close()
    assert database.execute("SELECT id, _key, at, sku, turn FROM items ORDER BY id").fetchall() == [
        (1, "page-0", "now", None, 1),
        (2, "page-1", "now", 7.0, None),
    ]
    database.close()
