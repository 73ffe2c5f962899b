from __future__ import annotations

import pytest


def test_it_leaves_nothing_of_the_worker_and_reports_of_those_alive(shard, client, clock):
    keys = shard.layout.keys
    shard.run("create", b"settings", key=keys.settings)
    shard.run("join", "silent", 1000, "", key=keys.settings)
    clock.advance(1)
    for name in ("one", "two"):
        shard.run("join", name, 30_000, "", key=keys.settings)
    assert shard.run("leave", "one", 0, key=keys.settings) == 1
    assert shard.run("leave", "one", 0, key=keys.settings) == 1
    assert shard.run("leave", "two", 0, key=keys.settings) == 0
    assert client.hkeys(keys.infos) == client.zrange(keys.workers, 0, -1) == [b"silent"]


def test_the_last_one_may_shut_the_door(shard, client):
    keys = shard.layout.keys
    shard.run("create", b"settings", key=keys.settings)
    for name in ("one", "two"):
        shard.run("join", name, 30_000, "", key=keys.settings)
    assert shard.run("leave", "one", 1, key=keys.settings) == 1
    assert shard.run("join", "one", 30_000, "", key=keys.settings) == 1
    shard.run("leave", "one", 1, key=keys.settings)
    assert shard.run("leave", "two", 1, key=keys.settings) == 0
    with pytest.raises(Exception, match="NOCRAWL the crawl is being removed"):
        shard.run("join", "three", 30_000, "", key=keys.settings)
    shard.run("erase", key=keys.settings)
    assert client.exists(keys.settings) == 0
