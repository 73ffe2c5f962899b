from __future__ import annotations


def test_only_a_crawl_that_has_settings_gets_others(shard):
    key = shard.layout.keys.settings
    assert shard.run("set_crawl_field", "settings", b"second", key=key) == 0
    assert shard.run("create", "", key=key) == [None, None, None]
    shard.run("create", b"first", key=key)
    assert shard.run("set_crawl_field", "settings", b"second", key=key) == 1
    assert shard.run("create", "", key=key) == [b"second", None, None]


def test_it_is_noted_that_shards_were_founded_and_that_a_crawl_is_removed(shard):
    key = shard.layout.keys.settings
    assert shard.run("set_crawl_field", "founded", "1", key=key) == 0
    shard.run("create", b"first", key=key)
    assert shard.run("set_crawl_field", "founded", "1", key=key) == 1
    assert shard.run("set_crawl_field", "shut", "1", key=key) == 1
    assert shard.run("create", "", key=key) == [b"first", b"1", b"1"]
