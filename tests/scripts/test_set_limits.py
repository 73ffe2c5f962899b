from __future__ import annotations

import pytest

from silkline import Budget, Politeness
from silkline.frontier.verbs.enqueue import enqueue_command

AT_ONCE = Politeness(delay=0, concurrency=1000)


def offer_all(shard, hosts, each="ab"):
    for start in range(0, hosts, 500):
        urls = [
            f"https://h{number}.example/{page}" for number in range(start, min(start + 500, hosts)) for page in each
        ]
        shard.send(enqueue_command(shard.keys, [shard.offer(url) for url in urls]))


def test_each_limit_is_set_left_alone_or_taken_away(make_shard):
    shard = make_shard(budget=Budget(pages=5, pages_per_host=2), capacity=100)
    assert shard.run("set_limits", "7", "3", "50", b"{}", "0") == b"pages 0"
    assert shard.run("set_limits", "7", "3", "50", b"{}", "pages 0") == b"0"
    assert [shard.get(name) for name in ("allowance", "host_pages", "capacity")] == [7, 3, 50]
    shard.run("set_limits", "", "", "", b"{}", "0")
    assert [shard.get(name) for name in ("allowance", "host_pages", "capacity")] == [7, 3, 50]
    shard.run("set_limits", "-", "-", "", b"{}", "0")
    assert shard.get("allowance") is None
    assert shard.get("host_pages") > 10**14  # pages go on being counted


def test_what_is_used_becomes_the_allowance_of_a_new_epoch(make_shard):
    shard = make_shard(politeness=AT_ONCE)
    offer_all(shard, 4)
    shard.run("claim", 3, 50_000, 0)
    shard.run("set_limits", "used", "", "", b"{}", "0")
    assert (shard.get("allowance"), shard.get("epoch")) == (3, 1)
    assert len(shard.run("claim", 3, 50_000, 0)) == 3  # nothing but the heads of the reply


def test_a_copy_of_the_settings_is_kept_up_to_date_where_there_is_one(make_shard, client):
    shard = make_shard()
    client.hset(f"{shard.root}:ledger", "settings", b"old")
    shard.run("set_limits", "", "", "", b"new", "0")
    assert client.hget(f"{shard.root}:ledger", "settings") == b"new"


def test_pages_that_nobody_counted_cannot_be_limited(make_shard):
    shard = make_shard(politeness=AT_ONCE)
    offer_all(shard, 1)
    token = shard.run("claim", 1, 50_000, 0)[3]
    shard.run("settle", 1, token)
    before = shard.dump()
    assert shard.run("set_limits", "9", "3", "", b"{}", "0") == b"uncounted"
    assert shard.dump() == before


@pytest.mark.parametrize("raised", ["4", "-"])
def test_a_host_that_frees_a_place_while_limits_change_is_not_forgotten(raised, make_shard):
    """It stands nowhere, at the old cap; by the new one it never would have."""
    shard = make_shard(politeness=AT_ONCE, budget=Budget(pages_per_host=1))
    offer_all(shard, 2000, "abc")
    tokens = [token for _ in range(2) for token in shard.run("claim", 1000, 50_000, 0)[3::2]]
    assert len(tokens) == 2000
    cursor = shard.run("set_limits", "", raised, "", b"{}", "0")
    assert cursor != b"0"
    for start in range(0, 2000, 500):
        shard.run("settle", 500, *tokens[start : start + 500])
    while cursor != b"0":
        cursor = shard.run("set_limits", "", raised, "", b"{}", cursor)
    again = [token for _ in range(4) for token in shard.run("claim", 1000, 50_000, 0)[3::2]]
    assert len(again) == 4000
