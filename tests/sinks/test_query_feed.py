"""A query to PostgreSQL that feeds a crawl."""

from __future__ import annotations

import asyncio
import sys

import psycopg
import pytest

from silkline import Complete, Crawl, Frontier, Politeness, Request
from silkline.errors import ConfigError
from silkline.worker.feeds import feeder, query_feed
from silkline.worker.feeds.feed_name import check_feed
from silkline.worker.feeds.feeder import Feeding, check_feeds
from silkline.worker.feeds.query_feed import QueryFeed
from silkline.worker.feeds.query_name import public_name, read_query_name
from silkline.worker.feeds.sitemap_feed import SitemapFeed
from silkline.worker.process.outputs import options_of
from tests.sinks.postgres_server import PASSWORD

SELECT = 'SELECT url, priority, \'p-\' || priority AS "meta.sku", extra AS meta, day AS "meta.day" FROM pages WHERE priority < 9 & 31'


@pytest.fixture(scope="module")
def pages(postgres):
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE pages (url text, priority numeric, extra jsonb, day date)")
        connection.execute(
            "INSERT INTO pages SELECT 'https://h' || n || '.example/', n % 7, '{\"n\": [1]}', '2026-01-31' FROM generate_series(1, 100) n"
        )
        connection.execute(
            "INSERT INTO pages VALUES (NULL, 1), ('https://last.example/', 8), ('https://not.example/', 9)"
        )
    return f"{postgres.url()}&query={SELECT}"


@pytest.fixture
async def frontier(valkey, crawl):
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0, concurrency=99)) as opened:
        yield opened


async def fed(frontier, feed):
    """Feed to the end; return the requests, which are completed."""
    source = QueryFeed(feed, frontier)
    feeding = Feeding(frontier, [source], ["page"])
    running = asyncio.create_task(feeding.run())
    while not await source.ended():
        assert not running.done(), await running
        await asyncio.sleep(0.01)
    feeding.stop()
    await running
    leases = await frontier.claim(1000)
    await frontier.settle([(lease, Complete()) for lease in leases])
    return [lease.request for lease in leases]


async def test_rows_are_entries(pages, frontier, monkeypatch):
    monkeypatch.setattr(feeder, "BATCH", 30)
    requests = await fed(frontier, pages)
    assert len(requests) == 101
    assert Request("https://h5.example/", priority=5, meta={"n": [1], "sku": "p-5", "day": "2026-01-31"}) in requests
    [letter] = await frontier.admin.dead()
    assert letter.url.endswith("?row=101")
    assert 'no "url"' in letter.reason
    assert PASSWORD not in letter.url + letter.reason
    assert await fed(frontier, pages) == []  # it was just read
    assert (await frontier.admin.stats()).dead == 1
    monkeypatch.setattr(query_feed, "TURN", -1.0)
    assert await fed(frontier, pages) == []  # it is read again, and all of it was seen
    assert (await frontier.admin.stats()).dead == 2


async def test_a_connection_that_ends_is_reported_and_the_query_repeated(pages, frontier, postgres):
    feed = QueryFeed(pages, frontier)
    assert len(await feed.take(10)) == 10
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'silkline'")
    with pytest.raises(ConfigError, match=r"postgresql://\*\*\*@/postgres.* cannot be read"):
        await feed.take(5000)
    assert len(await feed.take(5000)) == 102
    await feed.close()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT priority FROM pages", 'no column "url"'),
        ("SELECT url, day FROM pages", 'a column "day", which is no field'),
        ("SELECT nothing FROM pages", "nothing"),
        ("DELETE FROM pages", "DELETE"),
        ("SELECT url FROM pages; DROP TABLE pages", "cannot be read"),
    ],
)
def test_a_wrong_query_is_reported_before_anything_is_read(pages, query, words):
    with pytest.raises(ConfigError, match=words) as told:
        check_feeds([pages.partition("&query=")[0] + "&query=" + query], ["page"])
    assert PASSWORD not in str(told.value)
    check_feeds([pages], ["page"])


def test_a_password_is_neither_shown_nor_stored(pages, monkeypatch):
    assert check_feed(pages) == pages
    assert PASSWORD in pages
    assert PASSWORD not in public_name(pages)
    assert public_name("redis:x") == "redis:x"
    plain = "postgresql://db.example/shop?query=SELECT url FROM p WHERE a LIKE '%de%'  AND b + 1 = 2;"
    assert read_query_name(plain).query == "SELECT url FROM p WHERE a LIKE '%de%'  AND b + 1 = 2"
    assert read_query_name("postgresql:///shop?query=SELECT%20url%0aFROM%20p;").query == "SELECT url\nFROM p"
    assert options_of(Crawl("x", feeds=[pages, plain]), []).feeds == (plain,)
    with pytest.raises(ConfigError, match=r"a feed of a database is postgresql://") as told:
        check_feed(f"postgresql://me:{PASSWORD}@host/db?table=x")
    assert PASSWORD not in str(told.value)
    long = f"{plain} OR {'x' * 500}"
    assert len(public_name(long)) < 250
    assert public_name(long) != public_name(long + "y")
    monkeypatch.delitem(sys.modules, "silkline.worker.feeds.query_rows", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"needs the package psycopg: pip install 'silkline\[postgres\]'"):
        check_feeds([plain], ["page"])


@pytest.mark.parametrize("login", ["me:pa%ss", "me:se@cret", "me:se/cret", "me%:x"])
def test_a_password_that_the_driver_would_show_in_an_error_is_refused(login):
    for feed in (f"postgresql://{login}@127.0.0.1:1/x?query=SELECT 1", "postgresql://h/x?password=%ss&query=SELECT 1"):
        with pytest.raises(ConfigError, match="write @ as %40") as told:
            check_feed(feed)
        assert not any(part in str(told.value) for part in ("cret", "ss&", "pa%", "me"))
    assert read_query_name("postgresql://me:p%40%2Fx@/shop?host=/tmp/a@b&query=SELECT 1").query == "SELECT 1"


def test_a_password_of_a_sitemap_is_hidden():
    name = "sitemap:https://me:secret@shop.example/sitemap.xml"
    assert public_name(name) == SitemapFeed(name, ["page"]).name == name.replace("secret", "***")
    for wrong in (f"{name}#what=1", f"{name}#since=x", f"{name}#handler=x"):
        with pytest.raises(ConfigError) as told:
            SitemapFeed(wrong, ["page"])
        assert "secret" not in str(told.value)
