"""PostgreSQL: a real one, which is stopped, refuses, and has tables of others."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from silkline.errors import ConfigError, SinkUnavailable
from silkline.sinks import open_sink, record_of
from tests.sinks.making import PAGE, record
from tests.sinks.postgres_server import PASSWORD, PostgresServer


@pytest.fixture
def sql(postgres):
    """Ask the server."""

    def ask(statement, *values):
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else None

    return ask


def types_of(sql, table):
    rows = sql("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s", table)
    return dict(rows)


async def test_a_server_that_goes_away_is_found_again():
    server = PostgresServer()
    try:
        url = server.start().url(table="away")
        sink = open_sink(url)
        await sink.write([record(0)])
        server.stop()
        for _ in range(2):
            with pytest.raises(SinkUnavailable, match=r"postgresql://\*\*\*@/postgres cannot be written: "):
                await sink.write([record(1)])
        with pytest.raises(SinkUnavailable) as refused:
            open_sink(url)
        assert PASSWORD not in str(refused.value)
        server.start()
        await sink.write([record(1)])
        await sink.close()
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT n FROM away ORDER BY n").fetchall() == [(0,), (1,)]
    finally:
        server.remove()


async def test_a_connection_that_is_cut_is_made_again(postgres, sql):
    sink = open_sink(postgres.url(table="cut"))
    await sink.write([record(0)])
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'silkline'")
    with pytest.raises(SinkUnavailable):
        await sink.write([record(1)])
    await sink.write([record(1)])
    await sink.close()
    assert sql("SELECT count(*) FROM cut") == [(2,)]


@pytest.mark.parametrize(
    ("login", "message"),
    [
        ({"password": "wrong-word"}, "password authentication failed"),
        ({"database": "nowhere"}, 'database "nowhere" does not exist'),
        ({"user": "nobody"}, "password authentication failed"),
        ({"table": "nowhere.books"}, "nowhere"),
    ],
)
def test_a_wrong_login_is_an_error_of_the_settings(postgres, login, message):
    with pytest.raises(ConfigError, match=message) as refused:
        open_sink(postgres.url(**login))
    assert "wrong-word" not in str(refused.value)


def test_a_user_who_may_not_write_is_refused_at_once(postgres, sql):
    sql("CREATE ROLE reader LOGIN PASSWORD 'hush-hush'")
    sql('CREATE TABLE closed ("_key" text PRIMARY KEY)')
    with pytest.raises(ConfigError, match='may not write to the table "closed"'):
        open_sink(postgres.url(user="reader", table="closed"))
    with pytest.raises(ConfigError, match='may not write to the table "not_there"'):
        open_sink(postgres.url(user="reader", table="not_there"))


def test_a_table_of_somebody_else_is_refused(postgres, sql):
    sql("CREATE TABLE others (id integer)")
    with pytest.raises(ConfigError, match=r"has no column _key; use another table: \?table=NAME"):
        open_sink(postgres.url(table="others"))


async def test_columns_get_the_types_of_their_values(postgres, sql):
    sink = open_sink(postgres.url(table="typed"))
    await sink.write([record(0, title="Emma", price=1.5, sold=True, tags=["a"], nothing=None)])
    assert types_of(sql, "typed") == {
        "_key": "text", "_url": "text", "n": "bigint", "title": "text", "price": "double precision", "sold": "boolean",
        "tags": "jsonb",
    }  # fmt: skip
    await sink.write([record(1, title=3, price=2, sold="yes", tags="a", nothing=1), record(2.5, price=2**60)])
    await sink.close()
    assert types_of(sql, "typed") == {
        "_key": "text", "_url": "text", "n": "numeric", "title": "text", "price": "numeric", "sold": "text",
        "tags": "text", "nothing": "bigint",
    }  # fmt: skip
    assert sql("SELECT n, title, price, sold, tags FROM typed ORDER BY n")[:2] == [
        (0, "Emma", 1.5, "true", '["a"]'),
        (1, "3", 2, "yes", "a"),
    ]


async def test_columns_that_somebody_made_keep_their_type_while_it_fits(postgres, sql):
    sql(
        'CREATE TABLE made ("_key" text PRIMARY KEY, "_url" text, day date, small smallint, code varchar(3), '
        "id bigserial, stamp timestamptz NOT NULL DEFAULT now(), twice integer GENERATED ALWAYS AS (small * 2) STORED)"
    )
    sink = open_sink(postgres.url(table="made"))
    await sink.write([record(0, day="2026-01-02", small=3, code="abc")])
    assert types_of(sql, "made")["day"] == "date"
    await sink.write([record(1, day="last week", code="abcd")])
    await sink.close()
    assert types_of(sql, "made")["day"] == "text"
    assert types_of(sql, "made")["small"] == "smallint"
    assert sql("SELECT count(id), count(stamp), max(twice) FROM made") == [(2, 2, 6)]
    assert sql("SELECT day, small, code FROM made ORDER BY n") == [
        ("2026-01-02", 3, "abc"),
        ("last week", None, "abcd"),
    ]


async def test_a_table_that_has_only_the_key_is_enough(postgres, sql):
    sql('CREATE TABLE bare ("_key" text PRIMARY KEY)')
    sink = open_sink(postgres.url(table="bare"))
    for _ in range(2):
        await sink.write([record_of("page-0", PAGE, {})])
    await sink.close()
    assert sql("SELECT * FROM bare") == [("page-0", PAGE)]


async def test_a_table_that_is_dropped_is_made_again(postgres, sql):
    sink = open_sink(postgres.url(table="dropped"))
    await sink.write([record(0)])
    sql("DROP TABLE dropped")
    with pytest.raises(SinkUnavailable, match="does not exist"):
        await sink.write([record(1)])
    await sink.write([record(1)])
    await sink.close()
    assert sql("SELECT n FROM dropped") == [(1,)]


async def test_a_table_may_be_in_a_schema(postgres, sql):
    sql("CREATE SCHEMA shop")
    sink = open_sink(postgres.url(table="shop.books"))
    await sink.write([record(0)])
    await sink.close()
    assert sql("SELECT n FROM shop.books") == [(0,)]


async def test_sinks_that_widen_the_same_column_at_once_do_not_collide(postgres, sql):
    sinks = [open_sink(postgres.url(table="busy")) for _ in range(5)]
    values = [1, 2.5, "three", True, ["x"]]
    for turn in range(6):
        await asyncio.gather(
            *(sink.write([record(turn * 5 + n, value=values[n], **{f"c{turn}": n})]) for n, sink in enumerate(sinks))
        )
    for sink in sinks:
        await sink.close()
    assert sql("SELECT count(*), count(DISTINCT value) FROM busy") == [(30, 5)]


async def test_a_table_that_somebody_locks_for_long_is_unavailable(postgres, monkeypatch):
    monkeypatch.setattr("silkline.sinks.postgres.LOCK_SECONDS", 0.1)
    sink = open_sink(postgres.url(table="locked"))
    await sink.write([record(0)])
    with psycopg.connect(postgres.url()) as connection:
        connection.execute("LOCK TABLE locked")
        with pytest.raises(SinkUnavailable, match="lock timeout"):
            await sink.write([record(1)])
    await sink.write([record(1)])
    await sink.close()


async def test_a_write_that_waits_does_not_block_the_event_loop(postgres):
    sink = open_sink(postgres.url(table="waiting"))
    await sink.write([record(0)])
    with psycopg.connect(postgres.url()) as connection:
        connection.execute("LOCK TABLE waiting")
        writing = asyncio.create_task(sink.write([record(1)]))
        for _ in range(10):
            await asyncio.sleep(0.005)
        assert not writing.done()
    await writing
    await sink.close()
