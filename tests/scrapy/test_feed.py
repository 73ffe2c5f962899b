"""A spider is fed from Redis while it works. One process per version of Scrapy is shared by the tests of this file."""

from __future__ import annotations

import json
import time

import pytest

from silkline import SyncFrontier
from silkline.frontier.store.keys import InboxKeys
from silkline.testing import LocalSite
from tests.scrapy.feeding import Spiders, items, until
from tests.scrapy.processes import PYTHONS

PAGES = {"/page/*": "a page", "/lost": "gone"}


class Fed:
    """A spider that waits for what is pushed."""

    def __init__(self, server, folder, zygote, version):
        self.name = f"fed-{version}"
        self.site = LocalSite(PAGES).__enter__()
        self.client = server.client()
        self.url = server.url
        self.spiders = Spiders(zygote, folder, server.url, {self.name: ("Fed", {})})

    def push(self, *messages):
        self.client.lpush(
            f"{self.name}:start_urls", *(one if isinstance(one, str | bytes) else json.dumps(one) for one in messages)
        )

    def page(self, name):
        return self.site.at(f"/page/{name}")

    def crawled(self, part):
        """Items of pages whose URL has this in it."""
        return [item for item in items(self.client, f"{self.name}:items") if part in item["url"]]

    def wait_for(self, part, count=1):
        return until(lambda: len(found := self.crawled(part)) >= count and found, spiders=self.spiders)

    def letters(self, frontier):
        return {letter.request.body: letter for letter in frontier.admin.dead()}

    def close(self):
        self.spiders.kill()
        self.client.close()
        self.site.__exit__(None, None, None)


@pytest.fixture(scope="module", params=PYTHONS)
def fed(request, servers, zygotes, tmp_path_factory):
    fed = Fed(servers("valkey"), tmp_path_factory.mktemp("fed"), zygotes(request.param), request.param)
    yield fed
    fed.close()


@pytest.fixture
def frontier(fed):
    until(lambda: "Spider opened" in fed.spiders.log and fed.client.exists(f"silkline:{{{fed.name}}}:crawl"))
    with SyncFrontier.open(fed.url, crawl=fed.name, create=False) as frontier:
        yield frontier


def test_what_is_pushed_is_picked_up(fed, record_property):
    fed.push(fed.page("first"))
    fed.wait_for("first")
    took = []
    for number in range(6):
        began = time.monotonic()
        fed.push(fed.page(f"quick{number}"))
        fed.wait_for(f"quick{number}")
        took.append(time.monotonic() - began)
    record_property("pushed to stored, seconds", [round(one, 3) for one in took])


def test_a_bad_message_is_buried_with_a_reason_and_harms_no_other(fed, frontier):
    bad = {
        b"not a url": "not an absolute URL",
        b"\xff\xfe": "not valid utf-8",
        b'{"url": 7}': 'has no "url"',
        b'["x"]': "it is a JSON list",
        b'{"url": "http://e.com/", "callback": "system"}': "is not a public method of the spider",
        b"locked!" + fed.page("behind a lock").encode(): "KeyError: 'it is locked'",
    }
    good = [fed.page(f"good{number}") for number in range(15)]
    fed.push(*good[:7], *bad, *good[7:])
    fed.wait_for("good", 15)
    letters = until(lambda: len(found := fed.letters(frontier)) == len(bad) and found)
    for message, reason in bad.items():
        assert reason in letters[message].reason, letters[message]
    assert sorted(item["url"] for item in fed.crawled("good")) == sorted(good)
    assert fed.spiders.running
    assert fed.client.llen(f"{fed.name}:start_urls") == 0
    assert frontier.admin.purge(reason="not a public method") == 1
    fed.client.set(f"{fed.name}:open", 1)
    assert frontier.admin.revive() == 5
    fed.wait_for("lock")
    again = until(lambda: len(found := fed.letters(frontier)) == 4 and found)
    assert set(again) == set(list(bad)[:4])
    frontier.admin.purge()


def test_a_message_that_cannot_be_read_and_is_too_large_to_bury_is_put_aside_whole(fed, frontier):
    large = json.dumps({"url": fed.page("large"), "method": "POST", "body": ["x" * 70_000]}).encode()
    aside = InboxKeys(f"{fed.name}:start_urls").refused
    fed.push(large, fed.page("beside it"))
    fed.wait_for("beside")
    assert until(lambda: fed.client.lrange(aside, 0, -1), spiders=fed.spiders) == [large]
    assert f"the cap is 65536. It is kept in {aside}" in fed.spiders.log
    assert frontier.admin.dead() == []
    fed.client.delete(aside)


def test_an_object_may_say_everything_of_its_request(fed):
    site = fed.site
    fed.push({
        "url": fed.page("thing?a=1"), "method": "PUT", "meta": {"job": [1, {"x": "ä"}]}, "headers": {"X-A": "b"},
        "cookies": {"c": "d"}, "body": "text ä", "priority": 7, "callback": "parse_thing", "cb_kwargs": {"k": "v"},
        "dont_filter": False, "flags": ["f"],
    })  # fmt: skip
    fed.push({"url": fed.page("form?a=1"), "b": "2"}, {"url": fed.page("post"), "method": "POST", "b": ["2", "3"]})
    fed.push({"url": site.at("/missing"), "errback": "failed"})
    [item] = fed.wait_for("thing")
    assert (item["callback"], item["kwargs"], item["priority"]) == ("parse_thing", {"k": "v"}, 7)
    assert item["meta"]["job"] == [1, {"x": "ä"}]
    assert (item["flags"], item["dont_filter"], item["encoding"]) == (["f"], False, "utf-8")
    [visit] = site.visits.to(path="/page/thing")
    assert (visit.method, visit.body.decode(), visit.headers["x-a"]) == ("PUT", "text ä", "b")
    assert visit.headers["cookie"] == "c=d"
    [item] = fed.wait_for("form")
    assert item["url"].endswith("/page/form?a=1&b=2")
    fed.wait_for("post")
    [visit] = site.visits.to(path="/page/post")
    assert (visit.method, visit.body) == ("POST", b"b=2&b=3")
    [item] = fed.wait_for("missing")
    assert item["callback"] == "failed"


def test_only_what_asks_for_it_is_filtered(fed):
    twice, once = fed.page("twice"), {"url": fed.page("once"), "dont_filter": False}
    fed.push(twice, once, twice, once, fed.page("the last"))
    fed.wait_for("twice", 2)
    fed.wait_for("last")
    assert len(fed.crawled("once")) == 1


def test_a_spider_may_make_several_requests_of_a_message_or_none(fed):
    fed.push(f"none!{fed.page('none')}", f"many!{fed.page('many1')} {fed.page('many2')}")
    fed.wait_for("many", 2)
    assert fed.crawled("none") == []


def test_a_key_of_another_kind_is_reported_and_the_spider_waits(fed):
    key = f"{fed.name}:start_urls"
    until(lambda: not fed.client.exists(key))
    fed.client.sadd(key, fed.page("in a set"))
    until(lambda: f"the key '{key}' must be a list of messages, but it is a set" in fed.spiders.log)
    fed.client.delete(key)
    fed.push(fed.page("in a list"))
    fed.wait_for("list")


def test_nothing_is_left_behind(fed, frontier):
    until(frontier.finished)
    left = [key for key in fed.client.scan_iter(f"*{fed.name}*") if b":once:" not in key and b"{" in key]
    assert not any(b"inbox" in key for key in left), left
    assert fed.spiders.running
    assert "src/silkline/" not in fed.spiders.log, "a traceback"
