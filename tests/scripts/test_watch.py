from __future__ import annotations

from tests.scripts.waiting import GROUP, HOUR, START, watch


def watches(client, shard):
    return client.hgetall(f"{shard.root}:watches")


def test_several_groups_can_wait_for_a_call(shard, client):
    for batch in ("b", "c", "b"):
        assert watch(shard, "step/1", 7, batch=batch) == "watched"
    assert sorted(watches(client, shard)[b"step/1"].split(b"\n")) == [b"report/=all b 7", b"report/=all c 7"]


def test_a_batch_has_a_letter_for_each_of_its_calls(shard, client):
    watch(shard, "step/abcdefghi*", 3)
    assert watches(client, shard) == {b"step/abcdefghi*": b"report/=all b ..."}


def test_a_watch_can_be_ended(shard, client):
    watch(shard, "step/1", 7)
    watch(shard, "step/1", 8, batch="c")
    watch(shard, "step/1", 7, until=0)
    assert watches(client, shard) == {b"step/1": b"report/=all c 8"}
    watch(shard, "step/1", 8, until=0, batch="c")
    assert client.exists(f"{shard.root}:watches", f"{shard.root}:watch_times") == 0


def test_it_lasts_as_long_as_the_last_group_waits(shard, client):
    watch(shard, "step/1", 7)
    watch(shard, "step/1", 7, until=START + 5 * HOUR, batch="c")
    watch(shard, "step/1", 7, until=START + 2 * HOUR, batch="d")
    assert client.zscore(f"{shard.root}:watch_times", "step/1") == START + 5 * HOUR
    assert shard.get("watched") == START + 5 * HOUR


def test_the_memory_of_one_watch_is_limited(shard, client):
    names = [word for number in range(900) for word in ("step/1", number)]
    replies = [watch(shard, *names, batch=f"batch-{number}") for number in range(5)]
    assert (replies[0], replies[-1]) == ("watched", "full")
    assert len(watches(client, shard)[b"step/1"]) <= 65536
    assert GROUP.encode() in watches(client, shard)[b"step/1"]
