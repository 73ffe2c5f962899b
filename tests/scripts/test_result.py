from __future__ import annotations

import itertools

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command

PATHS = itertools.count()


@pytest.fixture
def shard(make_shard):
    return make_shard(politeness=Politeness(delay=0, concurrency=100))


def complete(shard, path, value, ttl=60_000, room=10_000, name=None):
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{path}")]))
    [token] = shard.run("claim", 1, 5000, 0)[3::2]
    assert shard.run("settle", 0, token, "complete", ttl, name or f"id{path}", room, value) == b""


def test_a_result_is_stored_with_its_completion(shard, client, clock):
    complete(shard, "1", b'{"a":\n1}')
    assert shard.run("result", "id1") == [b"%d" % clock(), b'{"a":\n1}']
    assert shard.run("result", "other") is None
    assert client.hget(f"{shard.root}:ledger", "done") == b"1"
    assert client.hlen(f"{shard.root}:leased") == 0


def test_sent_twice_it_is_stored_once(shard, client):
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/1")]))
    [token] = shard.run("claim", 1, 5000, 0)[3::2]
    arguments = (0, token, "complete", 1000, "id", 10_000, "1")
    shard.run("settle", *arguments, call=("c:1", 9))
    before = shard.dump()
    assert shard.run("settle", *arguments, call=("c:1", 9)) == b""
    assert shard.dump() == before


def test_what_was_stored_is_counted_and_leaves_no_trace(shard, client, clock):
    for path in "123":
        complete(shard, path, b"1", ttl=1000)
    complete(shard, "6", b"22", ttl=1000, name="id3")
    taken = int(client.hget(f"{shard.root}:ledger", "result_bytes"))
    sizes = [len(value) + 120 for value in client.hvals(f"{shard.root}:results")]
    assert (len(sizes), sum(sizes)) == (3, taken)
    clock.advance(2)
    assert shard.run("result", "id1") is None
    complete(shard, "4", b"1")
    assert client.hkeys(f"{shard.root}:results") == [b"id4"]
    assert client.zrange(f"{shard.root}:result_times", 0, -1) == [b"id4"]
    client.delete(f"{shard.root}:results", f"{shard.root}:result_times")  # as the server does, when all have expired
    complete(shard, "5", b"1")
    assert int(client.hget(f"{shard.root}:ledger", "result_bytes")) == 120 + len(
        client.hget(f"{shard.root}:results", "id5")
    )


def test_the_keys_expire_after_the_last_result(shard, client):
    complete(shard, "1", b"1", ttl=50_000)
    complete(shard, "2", b"1", ttl=10)
    for name in ("results", "result_times"):
        assert 3_600_000 < client.pttl(f"{shard.root}:{name}") <= 3_650_000


def test_beyond_the_limit_those_that_expire_first_are_dropped(shard, client):
    complete(shard, "1", b"1", ttl=9000, room=400)
    complete(shard, "2", b"1", ttl=5000, room=400)
    complete(shard, "3", b"1", ttl=7000, room=400)
    assert sorted(client.hkeys(f"{shard.root}:results")) == [b"id1", b"id3"]


def test_a_token_that_is_not_held_stores_nothing(shard, client):
    assert shard.run("settle", 0, "7", "complete", 1000, "id", 10_000, "1") == b"7"
    assert shard.run("result", "id") is None
    assert client.exists(f"{shard.root}:results") == 0
    assert client.hget(f"{shard.root}:ledger", "done") in (None, b"0")


def leased(shard, count):
    """Enqueue and claim some requests; return the tokens."""
    offers = [shard.offer(f"https://a.example/{next(PATHS)}") for _ in range(count)]
    shard.send(enqueue_command(shard.keys, offers))
    return shard.run("claim", count, 5000, 0)[3::2]


def with_result(token, name, value, ttl=60_000, room=10_000):
    return token, "complete", ttl, name, room, value


def taken_by_results(shard, client):
    """Return the bytes that the results take, as the ledger has them and as they are stored."""
    ledger = int(client.hget(f"{shard.root}:ledger", "result_bytes"))
    return ledger, sum(len(value) + 120 for value in client.hvals(f"{shard.root}:results"))


def test_one_call_ends_leases_with_and_without_results(shard, client):
    plain, first, second, buried = leased(shard, 4)
    bury = (buried, "bury", "id4", "broken", "", "")
    ended = shard.run("settle", 1, plain, *with_result(first, "id1", "1"), *bury, *with_result(second, "id2", "2"))
    assert ended == b""
    assert [shard.run("result", name)[1] for name in ("id1", "id2")] == [b"1", b"2"]
    assert client.hget(f"{shard.root}:ledger", "done") == b"3"
    assert client.hlen(f"{shard.root}:dead") == 1
    assert client.hlen(f"{shard.root}:leased") == 0
    assert client.zmscore(f"{shard.root}:leases", [plain, first, second, buried]) == [None] * 4
    assert client.hget(f"{shard.root}:hosts", "a.example") is None


def test_a_token_that_is_not_held_costs_no_other_result(shard, client):
    first, second = leased(shard, 2)
    ended = shard.run(
        "settle", 0, *with_result(first, "id1", "1"), *with_result("7", "id7", "7"), *with_result(second, "id2", "2")
    )
    assert ended == b"7"
    assert sorted(client.hkeys(f"{shard.root}:results")) == [b"id1", b"id2"]
    assert client.hget(f"{shard.root}:ledger", "done") == b"2"
    assert client.hget(f"{shard.root}:ledger", "late") == b"1"


def test_of_two_results_of_one_request_in_a_call_the_later_one_is_stored(shard, client):
    first, second, third = leased(shard, 3)
    shard.run("settle", 0, *with_result(first, "id", "1"))
    shard.run("settle", 0, *with_result(second, "id", "22"), *with_result(third, "id", "333"))
    assert shard.run("result", "id")[1] == b"333"
    ledger, stored = taken_by_results(shard, client)
    assert ledger == stored


def test_many_results_in_a_call_stay_within_the_limit(shard, client):
    tokens = leased(shard, 60)
    for part in (tokens[:30], tokens[30:]):
        groups = [with_result(token, f"id{token.decode()}", "1", ttl=9000, room=5000) for token in part]
        assert shard.run("settle", 0, *(argument for group in groups for argument in group)) == b""
    ledger, stored = taken_by_results(shard, client)
    assert ledger == stored <= 5000
    kept = client.hlen(f"{shard.root}:results")
    assert kept == client.zcard(f"{shard.root}:result_times") == 5000 // (stored // kept)


def test_many_results_that_have_expired_are_dropped_together(shard, client, clock):
    for name in "abc":
        groups = [with_result(token, f"{name}{i}", "1", 1000, 100_000) for i, token in enumerate(leased(shard, 100))]
        shard.run("settle", 0, *(argument for group in groups for argument in group))
    clock.advance(2)
    first, second = leased(shard, 2)
    shard.run("settle", 0, *with_result(first, "d1", "1", room=100_000), *with_result(second, "d2", "1", room=100_000))
    assert client.hlen(f"{shard.root}:results") == 3 * 100 - 2 * 100 + 2
    ledger, stored = taken_by_results(shard, client)
    assert ledger == stored
