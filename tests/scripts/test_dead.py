from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.admin_verbs.dead_letters import DeadFilter
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.mark.parametrize("status", ["", "404", "-1"])
def test_the_reply_holds_the_letters_newest_first(shard, clock, status):
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(3)]))
    tokens = shard.run("claim", 3, 50_000, 0)[3::2]
    began, record = clock.now, shard.stored("")
    for token in tokens:
        clock.advance(1)
        shard.run("settle", 0, token, "bury", 0, "a reason", status, "")
    reply = shard.run("dead", 0, 2, *DeadFilter().arguments())
    assert reply[0] == 2
    assert reply[1::3] == [token.partition(b".")[0] for token in (tokens[2], tokens[1])]
    assert [int(when) for when in reply[2::3]] == [began + 3000, began + 2000]
    assert reply[3] == f"a reason\n{status}\nh2.example\n0\n1\n0\n{began}\n".encode() + record
    assert shard.run("dead", 2, 2, *DeadFilter().arguments())[0] == 1
    assert shard.run("dead", 0, 9, *DeadFilter(reason="[").arguments()) == [3]


@pytest.fixture
def cemetery(make_shard, clock):
    """Of each of three hosts four letters, a second apart; and the clock's time before the first."""
    shard = make_shard(politeness=Politeness(delay=0, concurrency=99))
    began = clock.now
    for _ in range(4):
        clock.advance(1)
        shard.send(enqueue_command(shard.keys, [shard.offer(f"https://{h}.example/{clock.now}") for h in "abc"]))
        for token in shard.run("claim", 3, 50_000, 0)[3::2]:
            shard.run("settle", 0, token, "bury", 0, "no", "", "")
    return shard, began


def times_of(shard, began, skip=0, most=100, **chosen):
    """How many letters were looked at, and in which second those were buried that match."""
    looked, *found = shard.run("dead", skip, most, *DeadFilter(**chosen).arguments())
    return looked, [(int(when) - began) // 1000 for when in found[1::3]]


def test_of_a_host_only_its_own_letters_are_read(cemetery):
    assert times_of(*cemetery, host="b.example") == (4, [4, 3, 2, 1])
    assert times_of(*cemetery, host="b.example", most=2) == (2, [4, 3])
    assert times_of(*cemetery, host="b.example", skip=3) == (1, [1])
    assert times_of(*cemetery, host="b.example", skip=4) == (0, [])
    assert times_of(*cemetery, host="b.exampl") == (0, [])
    assert times_of(*cemetery, host="b.example", reason="else") == (4, [])
    _, began = cemetery
    between = {"after": (began + 2000) / 1000, "before": (began + 3000) / 1000}
    assert times_of(*cemetery, host="c.example", **between) == (2, [3, 2])
    assert times_of(*cemetery, host="c.example", skip=1, **between) == (1, [2])


@pytest.mark.parametrize("lost", ["all", "one", "of another host"])
def test_as_long_as_not_all_are_listed_all_are_read(cemetery, client, lost):
    shard, _ = cemetery
    listed = client.zrange(f"{shard.root}:dead_by_host", 0, -1)
    client.zrem(f"{shard.root}:dead_by_host", *{"all": listed, "one": listed[5:6], "of another host": listed[:1]}[lost])
    assert times_of(*cemetery, host="b.example") == (12, [4, 3, 2, 1])
    shard.run("revive", 0, 100, *DeadFilter(host="b.example").arguments(), "purge")
    assert times_of(*cemetery, host="b.example")[1] == []
    assert client.zcard(f"{shard.root}:buried") == 8
