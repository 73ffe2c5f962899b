from __future__ import annotations


def test_the_reply_is_the_state_that_holds_and_cancelled_is_final(shard):
    assert shard.run("set_state", "paused") == b"paused"
    assert shard.run("set_state", "paused") == b"paused"
    assert shard.run("set_state", "open") == b"open"
    assert shard.run("set_state", "cancelled") == b"cancelled"
    assert shard.run("set_state", "open") == b"cancelled"
    assert shard.run("set_state", "paused") == b"cancelled"


def test_it_rings_for_a_change_and_for_nothing_else(shard, client):
    with client.pubsub(ignore_subscribe_messages=True) as bell:
        bell.subscribe(shard.keys.channel)
        bell.get_message(timeout=60)
        for state in ("open", "paused", "paused", "open"):
            shard.run("set_state", state)
        assert [bell.get_message(timeout=60)["data"] for _ in range(2)] == [b"0", b"0"]
        assert bell.get_message(timeout=0.01) is None
