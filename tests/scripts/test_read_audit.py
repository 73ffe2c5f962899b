from __future__ import annotations


def test_the_reply_holds_the_newest_acts(shard, clock):
    key = shard.layout.keys.audit
    assert shard.run("read_audit", 5, key=key) == []
    for number in range(3):
        shard.run("append_audit", "ana", "pause", str(number), key=key)
    assert shard.run("read_audit", 2, key=key) == [f"{clock.now}\nana\npause\n{number}".encode() for number in (2, 1)]
