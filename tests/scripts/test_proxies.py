from __future__ import annotations


def test_it_lists_the_state_the_counts_and_the_reason(shard, clock):
    key = shard.layout.keys.settings
    shard.run("create", b"settings", key=key)
    arguments = ("one", 0, 10, 2000, 300_000)
    shard.run("share_proxies", *arguments, "http://a.example:80", "worked", "", "3 1 2 90", key=key)
    clock.advance(1)
    shard.run("share_proxies", *arguments, "http://b.example:80", "failed", "it is closed", "", key=key)
    clock.advance(1)
    assert shard.run("proxies", 10, key=key) == [
        b"http://b.example:80", b"resting", b"1000 1 0 0 0 0 %d" % (clock.now - 1000), b"it is closed",
        b"http://a.example:80", b"ready", b"0 0 3 1 2 90 %d" % (clock.now - 2000), b"",
    ]  # fmt: skip
    assert shard.run("proxies", 1, key=key)[0::4] == [b"http://b.example:80"]
