from __future__ import annotations


def test_the_reply_is_the_time_and_four_words_for_each(shard, clock):
    key = shard.layout.keys.settings
    shard.run("create", b"settings", key=key)
    assert shard.run("workers", 10, key=key) == [str(clock.now).encode()]
    shard.run("join", "one", 1000, '{"a": "b c"}', key=key)
    now = clock.now
    assert shard.run("workers", 10, key=key) == [
        str(now).encode(),
        b"one",
        str(now + 1000).encode(),
        f'{now} {now} {{"a": "b c"}}'.encode(),
        b"work",
    ]
