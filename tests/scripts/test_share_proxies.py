from __future__ import annotations

import pytest

from silkline.core.proxy_health import ProxyCounts, ProxyReport
from silkline.frontier.verbs.proxies import read_reply, share_command

RESTS = 2.0, 300.0


@pytest.fixture
def share(shard):
    shard.run("create", b"settings", key=shard.layout.keys.settings)

    def share_(worker, *reports, since=0, call=None):
        command = share_command(shard.layout.keys, worker, since, RESTS, reports)
        return read_reply(shard.send(command, call))

    return share_


def test_a_call_that_is_sent_twice_counts_once(share, shard, client):
    report = ProxyReport("http://a.example:80", "failed", "refused", ProxyCounts(2, 1, 0, 70))
    first = share("one", report, call=("client:0", 7))
    stored = client.hgetall(shard.layout.keys.proxies)
    assert share("one", report, call=("client:0", 7)).news == first.news
    assert client.hgetall(shard.layout.keys.proxies) == stored


def test_the_proxies_that_changed_last_are_kept(share, shard, client, clock):
    keys = shard.layout.keys

    def share_few(number, event):
        arguments = ("one", 10**15, 3, 2000, 300_000, f"http://{number}.example:80", event, "", "")
        shard.run("share_proxies", *arguments, key=keys.settings)

    for number in range(5):
        clock.advance(1)
        share_few(number, "passed")
        share_few(0, "failed")
        clock.advance(3)
    assert sorted(client.hkeys(keys.proxies)) == sorted(client.zrange(keys.proxy_changes, 0, -1))
    assert set(client.hkeys(keys.proxies)) == {b"http://%d.example:80" % number for number in (0, 3, 4)}


def test_of_many_changes_at_a_time_none_is_left_out(share):
    """The numbers of proxies and of hosts are mixed, and a reply has a bounded number of each."""
    share("one", *(ProxyReport(f"http://{number}.example:80", "failed") for number in range(150)))
    share("one", *(ProxyReport(f"{number}.example", "tier", "1") for number in range(200)))
    for start in range(0, 500, 100):
        share("one", *(ProxyReport(f"http://{start + number}.example:80", "failed") for number in range(100)))
        share("one", *(ProxyReport(f"{start + number}.example", "tier", "2") for number in range(100)))
    since, found = 0, set()
    while (reply := share("two", since=since)).news:
        assert reply.change > since
        since, found = reply.change, found | {news.proxy for news in reply.news}
    assert found == {
        f"{before}{number}.example{after}" for number in range(500) for before, after in (("", ""), ("http://", ":80"))
    }


def test_a_line_that_is_not_understood_is_an_unknown_proxy(share, shard, client):
    share("one", ProxyReport("http://a.example:80", "worked"))
    client.hset(shard.layout.keys.proxies, "http://a.example:80", "1 2 later;")
    assert share("two", ProxyReport("http://a.example:80", "check")).news[0].word == "check"


def test_nothing_is_left_of_a_removed_crawl(share, shard, client):
    share("one", ProxyReport("http://a.example:80", "failed", "refused"), ProxyReport("b.example", "tier", "1"))
    assert client.zrange(shard.layout.keys.proxy_tiers, 0, -1) == [b"b.example 1"]
    shard.run("erase", key=shard.layout.keys.settings)
    assert not client.exists(shard.layout.keys.proxies, shard.layout.keys.proxy_changes)
    assert not client.exists(shard.layout.keys.proxy_tiers)
