from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def cemetery(make_shard):
    """Three letters of three hosts."""
    shard = make_shard(politeness=Politeness(delay=0))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(3)]))
    for token in shard.run("claim", 3, 50_000, 0)[3::2]:
        shard.run("settle", 0, token, "bury", 0, "no", "", "")
    return shard


def check(shard, repair=""):
    return [shard.run("check_dead_by_host", repair, side, "0") for side in ("letter", "index")]


SOUND = [[b"", 0], [b"", 0]]


def test_what_is_not_listed_gets_listed_and_what_should_not_be_is_struck_off(cemetery, client):
    listed = f"{cemetery.root}:dead_by_host"
    assert check(cemetery) == SOUND
    before = client.zrange(listed, 0, -1)
    stranger = before[0].replace(b"h0", b"h7")
    client.zrem(listed, before[0])
    client.zadd(listed, {stranger: 0, "rubbish": 0, before[1][:-1]: 0})
    damaged = cemetery.dump()
    assert check(cemetery) == [[b"", 1], [b"", 3]]
    assert cemetery.dump() == damaged, "a look repairs nothing"
    assert check(cemetery, "1") == [[b"", 1], [b"", 3]]
    assert client.zrange(listed, 0, -1) == before
    assert check(cemetery) == SOUND


def test_a_letter_is_listed_as_of_the_time_it_was_buried(cemetery, client, clock):
    [token] = client.zrange(f"{cemetery.root}:buried", 1, 1)
    client.zrem(f"{cemetery.root}:buried", token)
    assert check(cemetery) == [[b"", 0], [b"", 1]], "whether it lacks a time is the matter of another check"
    client.zadd(f"{cemetery.root}:buried", {token: clock.now + 5})
    assert check(cemetery, "1") == [[b"", 1], [b"", 1]]
    assert f"h1.example\n{clock.now + 5:014d} ".encode() + token in client.zrange(
        f"{cemetery.root}:dead_by_host", 0, -1
    )
    assert check(cemetery) == SOUND


def test_many_are_checked_in_bounded_steps(make_shard, client):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=5000))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(900)]))
    for token in shard.run("claim", 900, 50_000, 0)[3::2]:
        shard.run("settle", 0, token, "bury", 0, "no", "", "")
    listed = client.zrange(f"{shard.root}:dead_by_host", 0, -1)
    client.delete(f"{shard.root}:dead_by_host")
    cursor, made = b"0", 0
    while cursor:
        cursor, some = shard.run("check_dead_by_host", "1", "letter", cursor)
        assert some < 900
        made += some
    assert made == 900
    assert client.zrange(f"{shard.root}:dead_by_host", 0, -1) == listed
    client.delete(f"{shard.root}:dead", f"{shard.root}:buried")
    assert shard.run("check_dead_by_host", "1", "index", "0") == [b"0", 500]
    assert shard.run("check_dead_by_host", "1", "index", "0") == [b"", 400]
    assert client.exists(f"{shard.root}:dead_by_host") == 0
