from __future__ import annotations


def test_settings_are_changed_only_if_they_are_still_those_that_were_read(shard):
    key = shard.layout.keys.settings
    assert shard.run("replace_settings", b"first", b"second", key=key) is None
    shard.run("create", b"first", key=key)
    assert shard.run("replace_settings", b"other", b"second", key=key) == b"first"
    assert shard.run("replace_settings", b"first", b"second", key=key) == b"second"
    assert shard.run("replace_settings", b"first", b"third", key=key) == b"second"
