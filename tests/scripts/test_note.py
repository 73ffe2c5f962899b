from __future__ import annotations


def note(shard, store, version, requests):
    reply = shard.run("note", store, version, requests, key=shard.plan.keys.settings)
    return dict(zip(reply[::2], reply[1::2], strict=True))


def test_the_latest_note_of_each_store_holds(shard):
    assert note(shard, "", 0, 0) == {}
    assert note(shard, "one", 1, 5) == {b"one": b"5"}
    assert note(shard, "two", 1, 7) == {b"one": b"5", b"two": b"7"}
    assert note(shard, "one", 3, 2) == {b"one": b"2", b"two": b"7"}
    assert note(shard, "one", 2, 9) == {b"one": b"2", b"two": b"7"}
    assert note(shard, "two", 2, 0) == {b"one": b"2"}
    assert note(shard, "", 9, 9) == {b"one": b"2"}
