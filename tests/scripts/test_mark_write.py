from __future__ import annotations


def test_it_writes_each_time_and_leaves_nothing_for_long(shard, client):
    key = f"{shard.layout.shards[0].ledger}:mark"
    for _ in range(2):
        before = client.info("persistence")["rdb_changes_since_last_save"]
        assert shard.run("mark_write", key=key) == b"OK"
        assert client.info("persistence")["rdb_changes_since_last_save"] > before
    assert 0 < client.pttl(key) <= 1000
