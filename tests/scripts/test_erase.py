from __future__ import annotations


def test_settings_are_erased_once(shard, client):
    key = shard.layout.keys.settings
    shard.run("create", b"settings", key=key)
    shard.run("join", "worker", 1000, "", key=key)
    assert shard.run("erase", key=key) == 1
    assert shard.run("erase", key=key) == 0
    assert client.exists(key, shard.layout.keys.workers, shard.layout.keys.infos) == 0
