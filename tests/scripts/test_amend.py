from __future__ import annotations


def test_only_a_crawl_that_has_settings_gets_others(shard):
    key = shard.plan.keys.settings
    assert shard.run("amend", b"second", key=key) == 0
    assert shard.run("create", "", key=key) is None
    shard.run("create", b"first", key=key)
    assert shard.run("amend", b"second", key=key) == 1
    assert shard.run("create", "", key=key) == b"second"
