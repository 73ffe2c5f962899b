from __future__ import annotations


def test_the_settings_stored_first_hold(shard, crawl):
    key = shard.plan.keys.settings
    assert shard.run("create", "", key=key) is None
    assert shard.run("create", b"first", key=key) == b"first"
    assert shard.run("create", b"second", key=key) == b"first"
    assert shard.run("create", "", key=key) == b"first"
