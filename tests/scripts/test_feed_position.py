from __future__ import annotations

import pytest


def test_what_the_latest_reader_has_stored_holds(shard):
    key = shard.layout.keys.settings
    shard.run("create", b"settings", key=key)
    assert shard.run("feed_position", "/x y.txt", 0, b"", key=key) == b""
    assert shard.run("feed_position", "/x y.txt", 7, b"first 1", key=key) == b"first 1"
    assert shard.run("feed_position", "/x y.txt", 7, b"second", key=key) == b"second"
    assert shard.run("feed_position", "/x y.txt", 6, b"late", key=key) == b"second"
    assert shard.run("feed_position", "/x y.txt", 1763500000000, b"third", key=key) == b"third"
    assert shard.run("feed_position", "/x y.txt", 0, b"", key=key) == b"third"
    assert shard.run("feed_position", "/other", 0, b"", key=key) == b""


def test_a_crawl_that_is_not_there_has_none(shard):
    with pytest.raises(Exception, match="NOCRAWL"):
        shard.run("feed_position", "/x", 1, b"first", key=shard.layout.keys.settings)
