from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


def test_the_reply_is_the_policy_as_it_is_kept(shard, client):
    assert shard.run("set_host", "a.example", 500, "", "", "", "", "") == b"500 - - - -"
    assert shard.run("set_host", "a.example", "", 3, 2, 99, 1, "") == b"500 3 2 99 1"
    assert client.hget(f"{shard.root}:policies", "a.example") == b"500 3 2 99 1"
    assert shard.run("set_host", "a.example", "-", "", "-", "", "-", "", "") == b"- 3 - 99 -"
    assert shard.run("set_host", "a.example", "", "-", "", "-", "", "") == b"- - - - -"
    assert client.exists(f"{shard.root}:policies") == 0


def test_what_robots_txt_asks_is_a_word_of_its_own_and_kept_only_where_there_is_one(shard, client):
    assert shard.run("set_host", "a.example", 500, "", "", "", "", 7000) == b"500 - - - - 7000 - -"
    assert shard.run("set_host", "a.example", "-", "", "", "", "", "") == b"- - - - - 7000 - -"
    assert client.hget(f"{shard.root}:policies", "a.example") == b"- - - - - 7000 - -"
    assert shard.run("set_host", "a.example", "", "", "", "", "", "-") == b"- - - - -"
    assert client.exists(f"{shard.root}:policies") == 0


def test_a_policy_of_five_words_from_before_there_were_more_is_read(make_shard, client, clock):
    shard = make_shard(politeness=Politeness(delay=1, concurrency=9, burst=2))
    client.hset(f"{shard.root}:policies", "a.example", f"500 3 1 {clock.now + 99} -")
    [row] = shard.run("hosts", 1, "a.example")
    assert row[5:9] == [b"500", 3, 1, str(clock.now + 99).encode()]
    assert shard.run("set_host", "a.example", "", "", "", "-", "", 7) == b"500 3 1 - - 7 - -"


def test_a_delay_ends_a_slow_down_and_nothing_else_does(shard, client, clock):
    client.hset(f"{shard.root}:policies", "a.example", f"- - - - - - 8000 {clock.now}")
    slowed = f"- 2 - - - 5 8000 {clock.now}".encode()
    assert shard.run("set_host", "a.example", "", 2, "", "", "", 5) == slowed
    assert shard.run("set_host", "a.example", "-", "", "", "", "", "") == b"- 2 - - - 5 - -"


@pytest.mark.parametrize("words", [(500, 3, 2, 99, 1, 7), ("-",) * 6, ("",) * 6])
def test_the_same_call_sent_twice_is_the_same_as_once(shard, words):
    shard.send(enqueue_command(shard.keys, [shard.offer("https://b.example/")]))
    first = shard.run("set_host", "a.example", *words)
    before = shard.dump()
    assert shard.run("set_host", "a.example", *words) == first
    assert shard.dump() == before


def test_it_rings_when_a_host_is_let_go(shard, client):
    shard.run("set_host", "a.example", "", "", "", "", 1, "")
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/")]))
    with client.pubsub(ignore_subscribe_messages=True) as bell:
        bell.subscribe(shard.keys.channel)
        bell.get_message(timeout=60)
        shard.run("set_host", "a.example", "", "", "", "", "-", "")
        assert bell.get_message(timeout=60)["data"] == b"0"
