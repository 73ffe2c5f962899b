"""Commands about one crawl need no name on a server that has one crawl only."""

from __future__ import annotations

import pytest

from silkline import SyncFrontier
from tests.servers import Server


@pytest.fixture(scope="module")
def alone():
    """A server of its own: other tests have crawls on the shared one."""
    server = Server("valkey", tcp=True).start()
    yield f"redis://127.0.0.1:{server.port}"
    server.kill()
    server.remove()


@pytest.fixture
def books(alone):
    with SyncFrontier.open(alone, crawl="books") as frontier:
        frontier.enqueue(["https://shop.example/1", "https://shop.example/2"])
        frontier.bury(frontier.claim()[0], "status 503", 503)
        frontier.internal.join("w-1", info={})
        yield frontier
        frontier.admin.remove()


@pytest.fixture
def ask(here, alone):
    def run(*arguments):
        return here(*arguments, "--redis", alone)

    return run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["dead", "ls"], "books has 1 dead letter"),
        (["dead", "ls", "--letters"], "status 503"),
        (["dead", "revive", "--dry-run"], "1 dead letter would be revived"),
        (["dead", "purge", "--dry-run"], "1 dead letter would be purged"),
        (["host", "ls"], "shop.example"),
        (["host", "show", "shop.example"], "shop.example"),
        (["host", "set", "--delay", "5", "shop.example"], "shop.example"),
        (["host", "block", "shop.example", "--for", "1h"], "shop.example"),
        (["workers", "ls"], "w-1"),
        (["proxy", "ls"], "books has fetched nothing through proxies"),
        (["workers", "quiet", "all"], "1 worker ordered to quiet"),
        (["crawl", "show"], "books is"),
        (["crawl", "set", "--max-pages", "7"], "books was changed"),
        (["crawl", "pause"], "books is paused"),
        (["crawl", "drain"], "books is paused"),
        (["autoscale"], "recommended"),
    ],
)
def test_the_only_crawl_is_meant(ask, books, words, told):
    answer = ask(*words, *(["--yes"] if words[1:2] == ["set"] and words[0] == "crawl" else []))
    assert answer.code == 0, answer.err
    assert told in answer.out


def test_the_letter_of_the_only_crawl_is_shown(ask, books):
    [letter] = books.admin.dead()
    assert letter.url in ask("dead", "show", letter.id).out


def test_of_several_crawls_the_names_are_reported(ask, books, alone):
    with SyncFrontier.open(alone, crawl="shops") as shops:
        for words in (["dead", "ls"], ["host", "show", "shop.example"], ["workers", "stop", "all"], ["crawl", "pause"]):
            answer = ask(*words)
            assert answer.code == 2
            assert f"silkline {words[0]} {words[1]} needs the name of a crawl" in answer.err
            assert answer.err.rstrip().endswith("has: books, shops")
        shops.admin.remove()
    assert books.admin.stats().state == "open"


@pytest.mark.parametrize("verb", ["rm", "cancel"])
def test_what_cannot_be_undone_needs_the_name_and_names_it(ask, books, verb):
    answer = ask("crawl", verb, "--yes")
    assert answer.code == 2
    assert f"silkline crawl {verb} needs the name of a crawl" in answer.err
    assert "books" in answer.err
    assert books.admin.stats().state == "open"


def test_the_name_of_a_crawl_is_not_taken_for_a_host(ask, books):
    answer = ask("host", "pause", "books")
    assert (answer.code, "parameter HOST requires an argument" in answer.err) == (2, True)


def test_an_option_that_is_missing_is_named(ask, books):
    assert "--for" in ask("host", "block", "books", "shop.example").err


def test_a_server_without_crawls_says_how_to_start_one(ask):
    answer = ask("dead", "ls")
    assert answer.code == 2
    assert "there are no crawls on redis://127.0.0.1" in answer.err
    assert "silkline run FILE" in answer.err
