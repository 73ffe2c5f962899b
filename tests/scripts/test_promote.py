from __future__ import annotations

import pytest

from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def late(shard, clock):
    """Twelve requests that are due at the same time."""
    offers = [shard.offer(f"https://a.example/{number}", f"0 {clock.now + 5000} - -") for number in range(12)]
    shard.send(enqueue_command(shard.keys, offers))
    return shard


def references(shard):
    return [f"delayed:{reference.decode()}" for reference in shard.run("requests", "delayed", "", 1000, "")[2::3]]


def test_they_move_to_the_front_of_their_queue_in_the_given_order(late, client):
    late.send(enqueue_command(late.keys, [late.offer("https://a.example/first")]))
    chosen = references(late)
    assert late.run("promote", chosen[4], chosen[2], chosen[4]) == b"2"
    assert client.lrange(f"{late.root}:queue:0:a.example", 0, -1) == [late.stored(path) for path in ("4", "2", "first")]
    assert client.zcard(f"{late.root}:delayed") == 10
    assert late.get("queued") == 3


def test_the_same_call_sent_twice_acts_once_and_answers_the_same(late):
    chosen = references(late)[:2]
    assert late.run("promote", *chosen, call=("c:1", 3)) == b"2"
    before = late.dump()
    assert late.run("promote", *chosen, call=("c:1", 3)) == b"2"
    assert late.dump() == before
    assert late.run("promote", *chosen, call=("c:1", 4)) == b"0"


def test_one_is_found_after_others_of_the_same_time_have_gone(late):
    chosen = references(late)
    assert late.run("drop", "", *chosen[:10]) == b"10"
    assert late.run("promote", chosen[11]) == b"1"


def test_its_host_can_be_claimed_and_waiting_clients_are_reported(late, client):
    with client.pubsub(ignore_subscribe_messages=True) as channel:
        channel.subscribe(late.keys.channel)
        channel.get_message(timeout=5)
        late.run("promote", references(late)[0])
        message = channel.get_message(timeout=5)
        while message is None:
            message = channel.get_message(timeout=5)
    assert message["data"] == b"0"
    assert len(late.run("claim", 5, 5000, 0)[3::2]) == 1


def test_nonsense_promotes_nothing(late):
    for wrong in ("", "ready:0:0:2:ab:a.example", "delayed:1:2:3", "delayed:x"):
        assert late.run("promote", wrong) == b"0"
