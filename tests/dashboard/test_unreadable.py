"""Crawls that cannot be read hide none of the others."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from silkline import SyncFrontier
from silkline.dashboard import app
from silkline.dashboard.queries import MOST_CRAWLS
from silkline.errors import StoreUnavailable
from silkline.frontier.crawl_server import CrawlServer, connected, status_of_all
from tests.dashboard.serving import Serving, Visitor, patient
from tests.servers import Server

PAGES = ("/", "/crawls", "/workers", "/audit", "/requests?state=leased", "/requests?url=https://a.example/1")
DAMAGE = {
    "later": "schema 999",
    "no-ledger": "run: silkline fsck no-ledger --repair",
    "odd-ledger": "WRONGTYPE",
    "odd-count": "damaged",
    "odd-settings": "damaged",
}


@pytest.fixture(scope="module")
def damaged():
    """A server with one sound crawl, and others that were hurt in every way."""
    server = Server("valkey").start()
    for name in ("sound", *DAMAGE):
        with SyncFrontier.open(server.url, crawl=name) as frontier:
            frontier.enqueue("https://a.example/1")
            frontier.internal.append_audit("mira@ops", "pause")
            frontier.internal.join(f"worker of {name}", expires=3600)
    with server.client() as client:
        client.hset("silkline:{later}:crawl", "settings", '{"schema": 999}')
        client.delete("silkline:{no-ledger:0}:ledger")
        client.delete("silkline:{odd-ledger:0}:ledger")
        client.set("silkline:{odd-ledger:0}:ledger", "text")
        client.hset("silkline:{odd-count:0}:ledger", mapping={"capacity": "a lot", "full": 1})
        client.hset("silkline:{odd-settings}:crawl", "settings", "{}")
        client.sadd("silkline:crawls", b"\xff\x1b[31m")
    yield server
    server.remove()


@pytest.fixture(scope="module")
def dashboard(damaged):
    with Serving(patient(app(damaged.url))) as serving:
        yield serving


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_the_sound_ones_and_says_what_is_wrong_with_the_others(dashboard, path):
    answer = Visitor(dashboard.port).get(path)
    assert answer.status == 200, answer.words
    for name in ("later", "odd-settings"):
        assert f"{name} cannot be shown: " in answer.words
        assert DAMAGE[name] in answer.words
    assert "sound" in answer.words
    assert "\x1b" not in answer.text


def test_the_overview_says_what_is_wrong_with_each(dashboard):
    words = Visitor(dashboard.port).get("/").words
    for name, wrong in DAMAGE.items():
        assert wrong in words.partition(f"{name} cannot be shown: ")[2].partition(" cannot be shown: ")[0], name


def test_metrics_tell_of_the_sound_ones_and_which_are_missing(dashboard):
    answer = Visitor(dashboard.port).get("/metrics")
    assert answer.status == 200
    families = {family.name: family.samples for family in text_string_to_metric_families(answer.text)}
    assert {one.labels["crawl"] for one in families["silkline_requests"]} == {"sound"}
    assert {one.labels["crawl"] for one in families["silkline_crawl_unreadable"]} >= set(DAMAGE)
    assert families["silkline_crawls_unreadable"][0].value == len(DAMAGE) + 1
    assert families["silkline_crawls_left_out"][0].value == 0


def test_the_command_line_lists_them_too(damaged):
    with connected(damaged.url) as connection:
        found = status_of_all(connection)
    assert found["sound"].stats.ready == 1
    for name, wrong in DAMAGE.items():
        assert wrong in str(found[name])


def test_a_server_that_is_gone_is_no_damage(damaged):
    server = Server("valkey").start()
    try:
        with SyncFrontier.open(server.url, crawl="books"), Serving(patient(app(server.url))) as serving:
            visitor = Visitor(serving.port)
            assert visitor.get("/workers").status == 200
            server.kill()
            assert visitor.get("/workers").status == 503
            assert visitor.get("/metrics").status == 503
    finally:
        server.remove()


async def test_a_server_that_goes_while_crawls_are_asked_is_no_damage_either():
    server = Server("valkey").start()
    try:
        SyncFrontier.open(server.url, crawl="books").close()
        crawls = await CrawlServer.open(server.url)
        server.kill()
        with pytest.raises(StoreUnavailable):
            await crawls.each(["books"], lambda frontier: frontier.admin.stats())
        await crawls.close()
    finally:
        server.remove()


def test_metrics_say_how_many_crawls_they_leave_out():
    server = Server("valkey").start()
    try:
        for number in range(MOST_CRAWLS + 3):
            SyncFrontier.open(server.url, crawl=f"c{number:03}").close()
        with Serving(patient(app(server.url))) as serving:
            visitor = Visitor(serving.port)
            assert "\nsilkline_crawls_left_out 3\n" in visitor.get("/metrics").text
            last = visitor.get(f"/metrics?crawl=c{MOST_CRAWLS + 2:03}").text
            assert "\nsilkline_crawls_left_out 0\n" in last
            assert f'crawl="c{MOST_CRAWLS + 2:03}"' in last
            assert "3 more crawls not shown" in visitor.get("/workers").words
    finally:
        server.remove()
