from __future__ import annotations


def test_a_shard_is_founded_once(shard):
    assert shard.founded == b"founded"
    shard.run("set_state", "paused")
    before = shard.dump()
    assert shard.run("init_shard", "schema", 1, "state", "open", "capacity", 3) == b"stands"
    assert shard.run("init_shard") == b"stands"
    assert shard.dump() == before


def test_who_only_looks_founds_nothing(shard):
    assert shard.run("init_shard", key="silkline:{nowhere:0}:ledger") == b"missing"
    assert shard.client.exists("silkline:{nowhere:0}:ledger") == 0


def test_a_shard_that_has_lost_its_ledger_is_not_founded_again(shard, client):
    client.delete(shard.keys.ledger)
    before = shard.dump()
    assert shard.run("init_shard", "schema", 1, "state", "open", "capacity", 3) == b"lost"
    assert shard.run("init_shard") == b"lost"
    assert shard.dump() == before


def test_a_shard_of_an_older_version_gets_its_copy_of_the_settings(shard, client):
    client.hdel(shard.keys.ledger, "settings")
    assert shard.run("init_shard", "schema", 1, "settings", "{}") == b"stands"
    assert client.hget(shard.keys.ledger, "settings") == b"{}"
    assert shard.run("init_shard", "schema", 1, "settings", "others") == b"stands"
    assert client.hget(shard.keys.ledger, "settings") == b"{}"


def test_what_keeps_the_leases_sorted_fast_is_no_lease(shard, clock):
    clock.advance(1e9)
    assert shard.run("claim", 10, 1000, 0)[3:] == []
    told = shard.run("snapshot", 0)
    assert dict(zip(told[::2], told[1::2], strict=True))[b"leased"] == b"0"
