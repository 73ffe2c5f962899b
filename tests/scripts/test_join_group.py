from __future__ import annotations

import pytest

from tests.scripts.waiting import GROUP, START, claim, join, open_group, report


def state(client, shard):
    return client.hmget(f"{shard.root}:group:{GROUP}", "calls", "left", "failed", "closed")


def test_a_batch_is_counted_once(shard, client):
    open_group(shard)
    assert join(shard, "..dfx") == "joined"
    assert state(client, shard) == [b"4", b"2", b"1", b"0"]
    assert join(shard, "..dfx") == "joined"
    assert state(client, shard) == [b"4", b"2", b"1", b"0"]


def test_calls_that_ended_before_they_joined_are_not_left(shard, client):
    open_group(shard)
    report(shard, "0d", "2f")
    join(shard, "...")
    assert state(client, shard) == [b"3", b"1", b"1", b"0"]


def test_a_closed_group_without_calls_left_is_complete(shard, client):
    open_group(shard)
    assert join(shard, "dd", "close") == "complete"
    assert len(claim(shard)) == 1
    assert client.keys(f"{shard.root}:group*") == []
    assert client.zcard(f"{shard.root}:delayed") == 0


def test_no_more_calls_join_a_closed_group(shard):
    open_group(shard)
    assert join(shard, ".", "close") == "joined"
    assert join(shard, ".", batch="c") == "closed"
    report(shard, "0d")
    assert join(shard, ".", batch="c") == "gone"


def test_a_call_with_a_later_time_is_delayed_until_then(shard, client):
    open_group(shard, due=START + 5000)
    join(shard, "", "close")
    ((_, due),) = client.zrange(f"{shard.root}:delayed", 0, -1, withscores=True)
    assert due == START + 5000


def test_a_dropped_group_leaves_nothing(shard, client):
    open_group(shard)
    join(shard, "..")
    assert join(shard, "", "drop") == "dropped"
    assert client.keys(f"{shard.root}:group*") == []
    assert (client.zcard(f"{shard.root}:delayed"), shard.get("discarded")) == (0, 1)


@pytest.mark.parametrize(("lenient", "leases"), [(0, 0), (1, 1)])
def test_a_failed_call_buries_the_one_that_waits_unless_it_is_lenient(shard, client, lenient, leases):
    open_group(shard, lenient=lenient)
    join(shard, "fd", "close")
    assert len(claim(shard)) == leases
    reasons = [letter.partition(b"\n")[0] for letter in client.hvals(f"{shard.root}:dead")]
    assert reasons == [b"1 of the 2 calls that it waited for failed"][leases:]
