"""Start messages whose requests cannot be stored are crawled from memory, and come again if the process dies."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from silkline import SyncFrontier
from silkline.frontier.store.keys import InboxKeys
from silkline.testing import LocalSite
from silkline.testing.site import SiteResponse, redirect
from tests.scrapy.conftest import both_versions
from tests.scrapy.feeding import Spiders, items, until

SETTINGS = {"MAX_IDLE_TIME_BEFORE_CLOSE": 1, "SILKLINE_LEASE": 2, "RETRY_TIMES": 1}


@pytest.fixture
def site():
    with LocalSite(
        {"/page/*": "a page", "/moved": redirect("/page/moved"), "/broken": SiteResponse("broken", 500)}
    ) as site:
        yield site


@pytest.fixture
def client(valkey):
    with valkey.client() as client:
        yield client


@pytest.fixture
def start(zygotes, valkey, crawl, tmp_path):
    with ExitStack() as stack:

        def start(version="newest", **settings):
            spiders = Spiders(zygotes(version), tmp_path, valkey.url, {crawl: ("Fed", {})}, **SETTINGS | settings)
            return stack.enter_context(spiders)

        start.url = valkey.url
        yield start


@pytest.fixture
def inbox(crawl):
    return InboxKeys(f"{crawl}:start_urls")


def crawled(client, crawl):
    return sorted(item["url"].rpartition("/")[2] for item in items(client, f"{crawl}:items"))


@both_versions
def test_they_are_crawled_by_the_process_that_reads_them(start, client, site, inbox, crawl, tmp_path, version):
    (tmp_path / "file.html").write_text("<p>a file</p>")
    large = {"url": site.at("/page/post"), "method": "POST", "body": "x" * 70_000}
    client.rpush(
        inbox.key,
        "data:text/html,<p>/data",
        f"file://{tmp_path}/file.html",
        json.dumps(large),
        *(f"{word}!{site.at(f'/page/{word}')}" for word in ("lambda", "selector", "large")),
        f"both!{site.at('/page')}",
        f"lambda!{site.at('/moved')}",
        site.at("/page/plain"),
        "not a url",
    )
    log = start(version).finish()
    expected = ["data", "file.html", "lambda", "large", "memory", "moved", "plain", "post", "selector", "stored"]
    assert crawled(client, crawl) == expected
    [visit] = site.visits.to(path="/page/post")
    assert len(visit.body) == 70_000
    assert client.exists(inbox.key, inbox.taken, inbox.messages, inbox.refused) == 0
    assert "if this process dies, its start message is read again" in log
    assert "src/silkline/" not in log, "a traceback"
    with SyncFrontier.open(start.url, crawl=crawl, create=False) as frontier:
        [letter] = frontier.admin.dead()
        assert letter.request.body == b"not a url"


@both_versions
def test_they_come_again_if_the_process_is_killed_and_only_then(start, client, site, inbox, crawl, version):
    client.rpush(inbox.key, f"blocks!{site.at('/page/slow')}")
    victim = start(version)
    until(lambda: client.llen(f"{crawl}:begun") == 1, spiders=victim)
    [(_, first)] = client.zrange(inbox.taken, 0, -1, withscores=True)
    until(lambda: client.zrange(inbox.taken, -1, -1, withscores=True)[0][1] > first, spiders=victim)
    other = start(version)
    until(lambda: crawled(client, crawl) == ["link"], spiders=victim)
    victim.kill()
    client.zadd(inbox.taken, dict.fromkeys(client.hkeys(inbox.messages), 1))  # time went by
    until(lambda: client.llen(f"{crawl}:begun") == 2, spiders=other)
    client.set(f"{crawl}:open", 1)
    other.finish()
    assert crawled(client, crawl) == ["link", "slow"]  # the link was stored, and is seen
    assert client.exists(inbox.key, inbox.taken, inbox.messages, inbox.refused) == 0


@both_versions
def test_a_page_that_fails_moves_its_message_aside(start, client, site, inbox, crawl, version):
    message = f"lambda!{site.at('/broken')}"
    client.rpush(inbox.key, message)
    log = start(version).finish()
    assert len(site.visits.to(path="/broken")) == 2, "it is tried again, as RETRY_TIMES says"
    assert client.lrange(inbox.refused, 0, -1) == [message.encode()]
    assert f"was refused: HTTP status 500. It is kept in {inbox.refused}" in log
    assert client.exists(inbox.key, inbox.taken, inbox.messages) == 0
