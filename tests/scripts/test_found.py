from __future__ import annotations


def test_a_shard_is_founded_once(shard):
    assert shard.founded == 1
    shard.run("control", "paused")
    before = shard.dump()
    assert shard.run("found", "schema", 1, "state", "open", "capacity", 3) == 0
    assert shard.dump() == before


def test_what_keeps_the_leases_sorted_fast_is_no_lease(shard, clock):
    clock.advance(1e9)
    assert shard.run("claim", 10, 1000, 0)[3:] == []
    told = shard.run("snapshot")
    assert dict(zip(told[::2], told[1::2], strict=True))[b"leased"] == b"0"
