from __future__ import annotations

from silkline.frontier import commands


def test_the_reply_is_the_new_expiry_and_the_tokens_that_are_lost(shard, client, clock):
    shard.send(commands.enqueue(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(3)]))
    tokens = shard.run("claim", 3, 5000, 0)[3::2]
    shard.run("settle", 1, tokens[1])
    clock.advance(2)
    until = clock.now + 9000
    assert shard.run("extend", 9000, *tokens) == [str(until).encode(), tokens[1]]
    assert client.zmscore(f"{shard.root}:leases", tokens) == [until, None, until]
    assert shard.run("extend", 9000, tokens[0]) == [str(until).encode(), b""]


def test_it_never_brings_a_lease_back(shard, client):
    before = shard.dump()
    assert shard.run("extend", 9000, "1", "nonsense")[1] == b"1 nonsense"
    assert shard.dump() == before


def test_the_same_call_sent_twice_is_the_same_as_once(shard):
    shard.send(commands.enqueue(shard.keys, [shard.offer("https://a.example/")]))
    tokens = shard.run("claim", 3, 5000, 0)[3::2]
    first = shard.run("extend", 9000, *tokens)
    before = shard.dump()
    assert shard.run("extend", 9000, *tokens) == first
    assert shard.dump() == before
