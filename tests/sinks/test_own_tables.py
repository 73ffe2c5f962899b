"""Tables of the user's own: `?table=products&key=sku` in PostgreSQL and SQLite, both real."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from urllib.parse import quote

import psycopg
import pytest

from silkline.errors import ConfigError, InvalidItem, SinkUnavailable
from silkline.sinks import open_sink, record_of
from silkline.sinks.destination import without_secrets
from tests.sinks import writing

PAGE = "https://shop.example/1"
HOSTILE = [
    'sku"; DROP TABLE {table}; --',
    "100%",
    "%s",
    "%(x)s",
    "a\nb",
    "",
    "nul\0",
    "x" * 10_000,
    "excluded.price",
    "\u202eeurt",
    "'",
]
_numbers = itertools.count()


class Database:
    """A place for tables, and SQL to look at them."""

    def __init__(self, kind, out, connect):
        self.kind, self._out, self._connect = kind, out, connect

    def sql(self, statement):
        connection = self._connect()
        try:
            cursor = connection.execute(statement)
            return cursor.fetchall() if statement.startswith("SELECT") else None
        finally:
            connection.close()

    def out(self, table, key="sku"):
        return self._out(f"table={quote(table)}&key={quote(key)}")

    def new(self, columns):
        table = f"products_{next(_numbers)}"
        self.sql(f"CREATE TABLE {table} ({columns})")
        return table

    def open(self, table, key="sku"):
        return open_sink(self.out(table, key))


@pytest.fixture(params=["postgres", "sqlite"])
def database(request, tmp_path):
    if request.param == "sqlite":
        file = tmp_path / "shop.db"
        return Database(
            "sqlite", lambda options: f"sqlite:///{file}?{options}", lambda: sqlite3.connect(file, isolation_level=None)
        )
    postgres = request.getfixturevalue("postgres")
    return Database(
        "postgres",
        lambda options: f"{postgres.url()}&{options}",
        lambda: psycopg.connect(postgres.url(), autocommit=True),
    )


def product(sku, number=0, **fields):
    return record_of(f"page-{number}", PAGE, {"sku": sku, **fields})


async def test_a_row_per_key_and_columns_that_an_item_lacks_keep_their_value(database):
    table = database.new("sku text PRIMARY KEY, name text, price real, note text DEFAULT 'new'")
    sink = database.open(table)
    await sink.write([product("a", 1, name="Emma", price=7.5), product("b", 2, name="Persuasion")])
    database.sql(f"UPDATE {table} SET note = 'mine' WHERE sku = 'a'")
    await sink.write([product("a", 3, price=8.5), product("b", 4, name=None), product("c", 5)])
    await sink.close()
    assert database.sql(f"SELECT * FROM {table} ORDER BY sku") == [
        ("a", "Emma", 8.5, "mine"),
        ("b", None, None, "new"),
        ("c", None, None, "new"),
    ]


async def test_several_columns_are_a_key_in_any_order_of_the_index(database):
    table = database.new("price integer, shop text, sku integer, UNIQUE (shop, sku)")
    sink = database.open(table, "sku,shop")
    await sink.write([product(1, shop="x", price=1), product(1, shop="y", price=2), product(2, shop="x", price=3)])
    await sink.write([product(1, shop="y", price=20)])
    await sink.close()
    assert database.sql(f"SELECT shop, sku, price FROM {table} ORDER BY price") == [
        ("x", 1, 1),
        ("x", 2, 3),
        ("y", 1, 20),
    ]


async def test_the_same_batch_again_leaves_the_same_rows(database):
    """As after a crash between the commit and the completion of the pages."""
    table = database.new("sku text PRIMARY KEY, name text NOT NULL, price real, seen integer")
    batch = [product("b", 1, name="B"), product("a", 2, name="A", price=1), product("a", 3, price=2, seen=1)]
    for _ in range(2):
        sink = database.open(table)
        await sink.write(batch)
        await sink.close()
        assert database.sql(f"SELECT * FROM {table} ORDER BY sku") == [("a", "A", 2, 1), ("b", "B", None, None)]


async def test_killed_writers_leave_one_row_per_key_and_lose_none(forker, database):
    table = database.new("c0 integer, n integer, text text NOT NULL, UNIQUE (n, c0)")
    (last,) = writing.run(
        forker,
        "killed",
        out=database.out(table, "n,c0"),
        seed=1,
        rounds=9,
        longest=0.02,
        batches=10**6,
        size=40,
        columns=1,
    )
    rows = database.sql(f"SELECT n, c0 FROM {table}")
    assert last > 0
    assert len(rows) == len(set(rows))
    assert {row for row in rows if row[0] <= last} == {(n, place) for n in range(last + 1) for place in range(40)}


async def test_sinks_that_write_the_same_keys_at_once_do_not_collide(database):
    table = database.new("sku text PRIMARY KEY, a integer, b integer")
    sinks = [database.open(table) for _ in range(4)]
    for turn in range(5):
        items = [product(f"k{number}", a=turn) for number in range(20)] + [product(f"k{n}", b=turn) for n in range(20)]
        await asyncio.gather(*(sink.write(items[shift:] + items[:shift]) for shift, sink in enumerate(sinks)))
    for sink in sinks:
        await sink.close()
    assert database.sql(f"SELECT a, b, count(*) FROM {table} GROUP BY a, b") == [(4, 4, 20)]


async def test_a_partial_item_changes_a_row_whose_other_columns_must_not_be_null(database):
    table = database.new("sku text PRIMARY KEY, name text NOT NULL, price real")
    sink = database.open(table)
    await sink.write([product("a", name="Emma", price=1)])
    await sink.write([product("a", price=2)])
    await sink.write([product("a")])
    assert database.sql(f"SELECT * FROM {table}") == [("a", "Emma", 2)]
    with pytest.raises(InvalidItem, match=rf"{table}.* does not accept the item: .*name"):
        await sink.write([product("a", price=3), product("new", price=3)])
    assert database.sql(f"SELECT * FROM {table}") == [("a", "Emma", 2)]  # all or nothing
    await sink.write([product("a", price=3)])
    await sink.close()
    assert database.sql(f"SELECT * FROM {table}") == [("a", "Emma", 3)]


async def test_page_and_key_are_stored_in_columns_of_these_names(database):
    table = database.new('"_url" text PRIMARY KEY, "_key" text, sku text')
    sink = database.open(table, "_url")
    await sink.write([product("a", 7)])
    await sink.write([product("b", 8), record_of("page-9", PAGE, {"_url": "https://mine.example/", "sku": "c"})])
    await sink.close()
    assert database.sql(f"SELECT * FROM {table} ORDER BY sku") == [
        (PAGE, "page-8", "b"),
        ("https://mine.example/", "page-9", "c"),
    ]


async def test_names_with_quotes_and_percent_signs_are_only_names(database):
    table, key, column = 'odd "%s"; table', 'k"%s', "%(value)s'"
    quoted = ['"' + name.replace('"', '""') + '"' for name in (table, key, column)]
    database.sql("CREATE TABLE {} ({} text PRIMARY KEY, {} text NOT NULL)".format(*quoted))
    sink = database.open(table, key)
    for value in ("1", "2", None):
        item = {key: "a", column: value} if value else {key: "a"}
        await sink.write([record_of("page-0", PAGE, item)])
    await sink.close()
    assert database.sql(f"SELECT * FROM {quoted[0]}") == [("a", "2")]
    database.sql(f"DROP TABLE {quoted[0]}")


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_field_without_a_column_fails_its_item_and_nothing_else(database, name):
    table = database.new("sku text PRIMARY KEY, price real")
    name = name.format(table=table) if "{table}" in name else name
    sink = database.open(table)
    with pytest.raises(InvalidItem, match="has no column for the field") as refused:
        await sink.write([product("a", price=1, **{name: 1})])
    assert len(str(refused.value)) < 500
    assert str(refused.value).isprintable()
    await sink.write([product("a", price=2)])
    await sink.close()
    assert database.sql(f"SELECT * FROM {table}") == [("a", 2)]


async def test_the_statement_that_an_error_shows_helps(database):
    table = database.new("sku text PRIMARY KEY")
    sink = database.open(table)
    item = product("a", color="red", size=3, tags=["x"])
    with pytest.raises(InvalidItem) as refused:
        await sink.write([item])
    for statement in str(refused.value).partition("'tags': ")[2].split("; "):
        database.sql(statement)
    await sink.write([item])  # without being opened again
    await sink.close()
    assert [row[:3] for row in database.sql(f"SELECT sku, color, size, tags FROM {table}")] == [("a", "red", 3)]


@pytest.mark.parametrize("item", [{"price": 1}, {"sku": None, "price": 1}])
async def test_an_item_without_its_key_fails(database, item):
    table = database.new("sku text UNIQUE, price real")
    sink = database.open(table)
    with pytest.raises(InvalidItem, match=r"the item has no sku, which is the key of the table"):
        await sink.write([record_of("page-0", PAGE, item)])
    await sink.close()
    assert database.sql(f"SELECT * FROM {table}") == []


def test_a_table_that_does_not_exist_is_not_created(database):
    database.new("sku text")
    with pytest.raises(
        ConfigError, match=r"does not exist, and with \?key= it is not created: CREATE TABLE"
    ) as refused:
        database.open("nowhere", "shop,sku")
    statement = (
        str(refused.value).partition("created: ")[2].replace("…, ", "price real, ").replace("nowhere", "somewhere")
    )
    database.sql("DROP TABLE IF EXISTS somewhere")
    database.sql(statement)
    asyncio.run(database.open("somewhere", "shop,sku").close())


def test_a_key_without_column_or_unique_index_is_refused_with_the_remedy(database):
    table = database.new("price real, shop text")
    with pytest.raises(ConfigError, match=r"has no column sku, which \?key= names: ALTER TABLE") as refused:
        database.open(table)
    database.sql(str(refused.value).partition("names: ")[2])
    database.sql(f"CREATE UNIQUE INDEX wider_{table} ON {table} (sku, shop)")
    with pytest.raises(
        ConfigError, match=r"has no unique index on \(sku\), which \?key= needs: CREATE UNIQUE"
    ) as refused:
        database.open(table)
    database.sql(str(refused.value).partition("needs: ")[2])
    asyncio.run(database.open(table).close())


@pytest.mark.parametrize("key", ["", "sku,", ",", "sku,sku"])
def test_a_key_that_names_no_columns_is_refused(database, key):
    with pytest.raises(ConfigError, match=r"must be a column or several, such as key=shop,sku"):
        database.open(database.new("sku text PRIMARY KEY"), key)


async def test_a_table_that_is_dropped_is_waited_for(database):
    table = database.new("sku text PRIMARY KEY")
    sink = database.open(table)
    await sink.write([product("a")])
    database.sql(f"DROP TABLE {table}")
    for _ in range(2):
        with pytest.raises(SinkUnavailable, match="does not exist"):
            await sink.write([product("b")])
    database.sql(f"CREATE TABLE {table} (sku text PRIMARY KEY)")
    await sink.write([product("b")])
    await sink.close()
    assert database.sql(f"SELECT * FROM {table}") == [("b",)]


def test_the_key_is_stored_with_the_crawl(database):
    kept = without_secrets(database.out("products", "shop,sku"))
    assert "table=products" in kept.out
    assert "key=shop" in kept.out
    assert "key" not in kept.hidden


# ── one database only ──


async def test_types_of_postgres_are_kept_and_a_value_that_does_not_fit_fails_its_item(postgres):
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE typed_own (sku varchar(5) PRIMARY KEY, day date, price numeric(6, 2), sold boolean, tags text[], "
            "more jsonb, id bigint GENERATED ALWAYS AS IDENTITY, twice numeric GENERATED ALWAYS AS (price * 2) STORED)"
        )
        sink = open_sink(postgres.url(table="typed_own", key="sku"))
        tags = ["a,b", 'q"\\', None, "NULL", ""]
        await sink.write(
            [product("a", day="2026-01-02", price=1.5, sold=True, tags=tags, more={"x": [1]}), product("b", tags=[])]
        )
        for wrong in ({"day": "last week"}, {"price": 10**9}, {"sku": "longer"}, {"sold": "perhaps"}):
            with pytest.raises(InvalidItem, match=r'the table "typed_own" of .* does not accept the item: '):
                await sink.write([record_of("page-0", PAGE, {"sku": "c", **wrong})])
        for written_by_the_server in ("id", "twice"):
            with pytest.raises(InvalidItem, match="has no column for the field"):
                await sink.write([product("c", **{written_by_the_server: 1})])
        await sink.write([product("a", price="2.25")])
        await sink.close()
        found = connection.execute("SELECT sku, day::text, price::text, sold, tags, more, twice::text FROM typed_own")
        assert found.fetchall() == [
            ("b", None, None, None, [], None, None),
            ("a", "2026-01-02", "2.25", True, tags, {"x": [1]}, "4.50"),
        ]


def test_a_user_of_postgres_who_may_not_update_is_refused_at_once(postgres):
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE inserter LOGIN PASSWORD 'hush-hush'")
        connection.execute("CREATE TABLE insert_only (sku text PRIMARY KEY, price real)")
        connection.execute("GRANT SELECT ON insert_only TO inserter")
    with pytest.raises(ConfigError, match=r"permission denied|may not write"):
        open_sink(postgres.url(user="inserter", table="insert_only", key="sku"))


def test_an_index_of_postgres_that_on_conflict_cannot_use_is_refused(postgres):
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE partly (sku text, price real)")
        connection.execute("CREATE UNIQUE INDEX ON partly (sku) WHERE price > 0")
        connection.execute("CREATE TABLE late (sku text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        connection.execute("CREATE TABLE computed (sku text)")
        connection.execute("CREATE UNIQUE INDEX ON computed (lower(sku))")
    for table in ("partly", "late", "computed"):
        with pytest.raises(ConfigError, match="has no unique index"):
            open_sink(postgres.url(table=table, key="sku"))


async def test_columns_of_sqlite_are_found_in_any_case(tmp_path):
    database = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    database.execute("CREATE TABLE products (Sku TEXT PRIMARY KEY, Price REAL, twice REAL AS (Price * 2))")
    sink = open_sink(f"sqlite:///{tmp_path}/shop.db?table=products&key=SKU")
    await sink.write([product("007", PRICE=1)])
    with pytest.raises(InvalidItem, match="the item's fields price and PRICE are the same column"):
        await sink.write([product("a", price=1, PRICE=2)])
    with pytest.raises(InvalidItem, match="has no column for the field 'twice'"):
        await sink.write([product("a", twice=1)])
    await sink.close()
    assert database.execute("SELECT * FROM products").fetchall() == [("007", 1.0, 2.0)]
    database.close()


def test_no_file_is_created_for_a_table_that_must_exist(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        open_sink(f"sqlite:///{tmp_path}/none.db?table=products&key=sku")
    assert list(tmp_path.iterdir()) == []
