from __future__ import annotations

import pytest

from silkline.frontier import commands


def test_the_reply_is_the_policy_as_it_is_kept(shard, client):
    assert shard.run("policy", "a.example", 500, "", "", "", "") == b"500 - - - -"
    assert shard.run("policy", "a.example", "", 3, 2, 99, 1) == b"500 3 2 99 1"
    assert client.hget(f"{shard.root}:policies", "a.example") == b"500 3 2 99 1"
    assert shard.run("policy", "a.example", "-", "", "-", "", "-") == b"- 3 - 99 -"
    assert shard.run("policy", "a.example", "", "-", "", "-", "") == b"- - - - -"
    assert client.exists(f"{shard.root}:policies") == 0


@pytest.mark.parametrize("words", [(500, 3, 2, 99, 1), ("-", "-", "-", "-", "-"), ("", "", "", "", "")])
def test_the_same_call_sent_twice_is_the_same_as_once(shard, words):
    shard.send(commands.enqueue(shard.keys, [shard.offer("https://b.example/")]))
    first = shard.run("policy", "a.example", *words)
    before = shard.dump()
    assert shard.run("policy", "a.example", *words) == first
    assert shard.dump() == before


def test_it_rings_when_a_host_is_let_go(shard, client):
    shard.run("policy", "a.example", "", "", "", "", 1)
    shard.send(commands.enqueue(shard.keys, [shard.offer("https://a.example/")]))
    with client.pubsub(ignore_subscribe_messages=True) as bell:
        bell.subscribe(shard.keys.bell)
        bell.get_message(timeout=1)
        shard.run("policy", "a.example", "", "", "", "", "-")
        assert bell.get_message(timeout=5)["data"] == b"0"
