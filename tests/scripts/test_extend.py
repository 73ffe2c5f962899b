from __future__ import annotations

from silkline.frontier.verbs.enqueue import enqueue_command


def test_the_reply_is_the_new_expiry_and_the_tokens_that_are_lost(shard, client, clock):
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(3)]))
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
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/")]))
    tokens = shard.run("claim", 3, 5000, 0)[3::2]
    first = shard.run("extend", 9000, *tokens)
    before = shard.dump()
    assert shard.run("extend", 9000, *tokens) == first
    assert shard.dump() == before


def test_a_token_greater_than_any_it_gave_reports_that_the_shard_lost_writes(shard, clock):
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/")]))
    [token] = shard.run("claim", 3, 5000, 0)[3::2]
    number = int(token.partition(b".")[0])
    shard.run("extend", 9000, str(number), str(number - 1))
    assert shard.get("losses") is None
    shard.run("extend", 9000, f"{number + 1}.0123abcd")
    assert (shard.get("losses"), shard.get("lost_at")) == (1, clock.now)


def struck(shard, clock, call=None):
    """The token of a suspect's lease that has expired."""
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/")]))
    shard.run("claim", 1, 5000, 0, "alone")
    clock.advance(5)
    token = shard.run("claim", 1, 5000, 0, "alone")[3]
    shard.run("begin", token)
    clock.advance(5)
    shard.run("claim", 1, 5000, 0, "none")
    return token


def test_it_withdraws_a_strike_once(shard, client, clock):
    token = struck(shard, clock)
    assert client.hget(f"{shard.root}:ledger", "struck") == token + b":" + token
    assert shard.run("extend", 9000, token)[1] == token
    assert client.hget(f"{shard.root}:ledger", "struck") == b"*:" + token
    before = shard.dump()
    assert shard.run("extend", 9000, token)[1] == token
    assert shard.dump() == before
    assert shard.run("claim", 1, 5000, 0, "alone")[4].split(b"\n")[3] == b"100"
    assert not client.hexists(f"{shard.root}:ledger", "struck")


def test_it_withdraws_nothing_for_a_token_of_another_history(shard, clock):
    """It has the same number, but another server gave it."""
    token = struck(shard, clock)
    before = shard.dump()
    number = token.partition(b".")[0]
    for other in (number, number + b".0123abcd", b"*", b"", b"*:" + token):
        shard.run("extend", 9000, other)
    assert shard.dump() == before
