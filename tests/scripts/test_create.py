from __future__ import annotations


def test_the_settings_stored_first_hold(shard, crawl):
    key = shard.layout.keys.settings
    assert shard.run("create", "", key=key) == [None, None, None]
    assert shard.run("create", b"first", key=key) == [b"first", None, None]
    assert shard.run("create", b"second", key=key) == [b"first", None, None]
    assert shard.run("create", "", key=key) == [b"first", None, None]
