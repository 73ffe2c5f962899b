from __future__ import annotations

import pytest


def test_what_was_stored_last_holds(shard):
    key = shard.layout.keys.settings
    shard.run("create", b"settings", key=key)
    assert shard.run("run_options", "", key=key) == b""
    assert shard.run("run_options", b"first", key=key) == b"first"
    assert shard.run("run_options", b"second", key=key) == b"second"
    assert shard.run("run_options", "", key=key) == b"second"


def test_a_crawl_that_is_not_there_has_none(shard):
    with pytest.raises(Exception, match="NOCRAWL"):
        shard.run("run_options", b"options", key=shard.layout.keys.settings)
