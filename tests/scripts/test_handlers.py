"""The counts by handler are read as they are stored."""

from __future__ import annotations


def test_it_returns_a_line_for_each_handler(shard):
    key = shard.layout.keys.settings
    shard.run("create", b"settings", key=key)
    assert shard.run("handlers", key=key) == b""
    shard.run("add_history", "1", "", "1 2;list\n3;product\n", key=key)
    assert shard.run("handlers", key=key) == b"1 2;list\n3;product\n"
