from __future__ import annotations

import pytest

from silkline.frontier.admin_verbs.dead_letters import DeadFilter
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def cemetery(shard, clock):
    """Ten letters, one every second."""
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(10)]))
    for token in shard.run("claim", 10, 50_000, 0)[3::2]:
        shard.run("settle", 0, token, "bury", 0, "reason", 500, "")
        clock.advance(1)
    return shard


def revive(shard, skip=0, most=1000, what="revive", call=None, **chosen):
    return shard.run("revive", skip, most, *DeadFilter(**chosen).arguments(), what, call=call)


def test_the_reply_is_how_many_were_read_and_how_many_ended(cemetery):
    assert revive(cemetery, host="h3.example") == b"1 1"
    assert revive(cemetery, most=4) == b"4 4"
    assert revive(cemetery, skip=2, most=2) == b"2 2"
    assert revive(cemetery) == b"3 3"
    assert revive(cemetery) == b"0 0"


@pytest.mark.parametrize("what", ["revive", "purge"])
def test_the_same_call_sent_twice_acts_once_and_answers_the_same(cemetery, what):
    assert revive(cemetery, most=4, what=what, call=("c:1", 3)) == b"4 4"
    before = cemetery.dump()
    assert revive(cemetery, most=4, what=what, call=("c:1", 3)) == b"4 4"
    assert cemetery.dump() == before
    assert revive(cemetery, most=4, what=what, call=("c:1", 4)) == b"4 4"


def test_a_record_is_revived_byte_for_byte(shard, client):
    record = b"\x02" + bytes(range(256))
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/", record=record)]))
    [token] = shard.run("claim", 1, 5000, 0)[3::2]
    shard.run("settle", 0, token, "bury", 0, "no", "", "")
    assert revive(shard) == b"1 1"
    assert client.lrange(f"{shard.root}:queue:0:a.example", 0, -1) == [shard.stored(record)]
    assert client.exists(f"{shard.root}:dead", f"{shard.root}:buried", f"{shard.root}:dead_by_host") == 0
