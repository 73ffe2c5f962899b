"""What any program adds to a key of the crawl's server is crawled."""

from __future__ import annotations

import pickle

import pytest

from silkline import Request
from silkline.frontier.store.keys import InboxKeys
from silkline.frontier.user_keys.inbox import MOST_BYTES
from silkline.worker.feeds.feeder import BATCH, Feeding
from silkline.worker.feeds.redis_key import RedisFeed
from tests.feeds.conftest import FILL, entry

URLS = [f"https://h{number}.example/{number}" for number in range(20)]


@pytest.mark.parametrize("kind", FILL)
async def test_every_entry_is_enqueued_once(fed, kind):
    crawl = await fed()
    FILL[kind](crawl.client, crawl.key, URLS)
    await crawl.feed()
    urls = await crawl.urls()
    assert sorted(urls) == sorted(URLS)
    assert (await crawl.frontier.admin.stats()).accepted == len(URLS)
    keys = InboxKeys(crawl.key)
    assert crawl.client.exists(keys.taken, keys.messages, keys.refused) == 0


async def test_the_order_of_a_list_stays(fed):
    crawl = await fed()
    urls = [f"https://one.example/{number}" for number in range(BATCH + 50)]
    FILL["list"](crawl.client, crawl.key, urls)
    await crawl.feed()
    assert await crawl.urls() == urls


async def test_an_entry_has_the_fields_of_a_request(fed):
    crawl = await fed()
    fields = {
        "method": "post", "headers": {"A": "b"}, "body": "ä", "meta": {"sku": [1, None]}, "priority": 7, "depth": 2,
        "handler": "product", "cookies": {"c": "d"}, "auth": ["me", "secret"], "timeout": 2.5, "download_slot": "slot-1",
    }  # fmt: skip
    FILL["list"](crawl.client, crawl.key, [entry("https://a.example/x", **fields)])
    FILL["list"](crawl.client, crawl.key, [entry("https://a.example/y", not_before="2001-01-01T00:00:00Z")])
    await crawl.feed()
    leases = await crawl.claimed()
    [rich] = [lease.request for lease in leases if lease.request.meta]
    assert rich == Request(
        "https://a.example/x", "POST", {"A": "b"}, "ä".encode(), {"sku": [1, None]}, 7, 2, "product", cookies={"c": "d"},
        auth=("me", "secret"), timeout=2.5, download_slot="slot-1",
    )  # fmt: skip
    assert len(leases) == 2


async def test_fields_of_a_stream_are_columns(fed):
    crawl = await fed()
    crawl.client.xadd(crawl.key, {"url": "https://a.example/x", "priority": "5", "meta": '{"n": 1}', "meta.sku": "s"})
    await crawl.feed()
    [lease] = await crawl.claimed()
    assert lease.request == Request("https://a.example/x", priority=5, meta={"n": 1, "sku": "s"})


HOSTILE = {
    b"{": "not valid JSON",
    b"ftp://a.example/": "http",
    pickle.dumps({"url": "https://a.example/"}): "not valid UTF-8",
    pickle.dumps({"url": "https://a.example/"}, 0): "URL",
    b'{"url": "https://a.example/", "meta": {"n": NaN}}': "not valid JSON",
    b'{"url": "https://a.example/", "meta": {"n":' + b"[" * 9_000 + b"]" * 9_000 + b"}}": "nested too deeply",
    b'{"url": "https://a.example/", "priority": "high"}': '"priority"',
    b'{"url": "https://a.example/", "priority": 4000}': "priority must be",
    b'{"url": "https://a.example/", "handler": "os.system"}': "its handler 'os.system' is not in the crawl's file",
    b'{"url": "https://a.example/", "__proto__": {"a": 1}}': 'unknown field "__proto__"',
    b'{"url": {"$ne": 1}}': '"url"',
    b'{"url": "https://a.example/", "meta": {"x": "' + b"x" * 70_000 + b'"}}': "the cap is 65536",
    b"https://a.example/" + b"x" * MOST_BYTES: "the limit is 1,048,576",
    b" ": "it is empty",
}


async def test_what_is_no_request_becomes_a_dead_letter_and_holds_nothing_up(fed, caplog):
    crawl = await fed()
    before, after = "https://a.example/before", "https://a.example/after"
    FILL["list"](crawl.client, crawl.key, [before, *HOSTILE, after])
    await crawl.feed()
    assert await crawl.urls() == [before, after]
    letters = await crawl.frontier.admin.dead(limit=100)
    assert {letter.host for letter in letters} == {"feed.invalid"}
    reasons = {letter.request.body[:1000]: letter.reason for letter in letters}
    assert len(reasons) == len(letters) == len(HOSTILE)
    for data, word in HOSTILE.items():
        assert word in reasons[data[:1000]], (data[:80], reasons[data[:1000]])
        assert f"redis:{crawl.key}" in reasons[data[:1000]]
    whole = sorted(data for data in HOSTILE if len(data) > 48 * 1024)
    assert sorted(crawl.client.lrange(InboxKeys(crawl.key).refused, 0, -1)) == whole
    stats = await crawl.frontier.admin.stats()
    assert stats.conserved
    assert f"{len(HOSTILE)} bad entries" in caplog.text


async def test_a_full_crawl_leaves_entries_in_the_feed(fed):
    crawl = await fed(capacity=10, shards=1)  # each shard has its part of the capacity
    FILL["list"](crawl.client, crawl.key, URLS)

    async def full():
        return (await crawl.frontier.admin.stats()).ready == 10

    await crawl.feed(until=full)
    assert crawl.client.llen(crawl.key) == 10
    assert await crawl.urls() == URLS[:10]
    await crawl.feed()
    assert await crawl.urls() == URLS[10:]


async def test_entries_that_find_no_room_are_kept_and_given_back_when_the_worker_stops(fed):
    """One host may take only a share of the room, so entries are refused although there is some."""
    crawl = await fed(capacity=4000, host_share=0.5, shards=1)
    one_host = [f"https://one.example/{number}" for number in range(3000)]
    FILL["list"](crawl.client, crawl.key, one_host)
    keys = InboxKeys(crawl.key)

    async def some_wait():
        return (await crawl.frontier.admin.stats()).over_share > 0 and crawl.client.hlen(keys.messages) > 0

    await crawl.feed(until=some_wait)
    found = await crawl.urls()
    assert 0 < len(found) < 3000
    assert crawl.client.hlen(keys.messages) + crawl.client.llen(crawl.key) == 3000 - len(found)

    async def drained():
        found.extend(await crawl.urls())
        return len(found) >= 3000

    await crawl.feed(until=drained)  # at once, although the other worker's time is not over
    assert sorted(found) == sorted(one_host)


async def test_a_cancelled_crawl_takes_nothing_out_of_the_feed(fed):
    crawl = await fed()
    await crawl.frontier.admin.cancel()
    FILL["list"](crawl.client, crawl.key, [*URLS, "{"])
    source = RedisFeed.open(crawl.key, crawl.frontier)
    assert await Feeding(crawl.frontier, [source], ["page"]).wanted() == 0
    assert not await crawl.frontier.internal.add_dead([(Request(URLS[0]), "bad")])
    assert crawl.client.llen(crawl.key) == 21


async def test_a_key_of_another_type_is_reported_and_read_once_it_is_corrected(fed, caplog, monkeypatch):
    monkeypatch.setattr("silkline.worker.feeds.feeder.ERROR_PAUSE", 0.01)
    crawl = await fed()
    crawl.client.set(crawl.key, "x")

    async def told():
        return bool(crawl.feeding.trouble)

    await crawl.feed(until=told)
    assert "must be a list, set, zset or stream of messages, but it is a string" in crawl.feeding.trouble
    assert "cannot be read" in caplog.text
    crawl.client.delete(crawl.key)
    FILL["list"](crawl.client, crawl.key, URLS)
    await crawl.feed()
    assert sorted(await crawl.urls()) == sorted(URLS)
