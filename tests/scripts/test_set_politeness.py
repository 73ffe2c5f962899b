from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


def test_it_is_kept_in_the_ledger_and_hosts_take_their_places_by_it(make_shard, client, clock):
    shard = make_shard(politeness=Politeness(delay=100, concurrency=1))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(3)]))
    shard.run("claim", 3, 50_000, 0)
    assert client.zscore(f"{shard.root}:waiting", "a.example") is None  # at its cap
    assert shard.run("set_politeness", 2000, 2, 1, "0") == b"idle 0"
    assert client.hmget(f"{shard.root}:ledger", "delay", "concurrency", "burst") == [b"2000", b"2", b"1"]
    assert client.zscore(f"{shard.root}:waiting", "a.example") == clock.now + 2000


def test_the_same_call_sent_twice_is_the_same_as_once(make_shard):
    shard = make_shard(politeness=Politeness(delay=100, concurrency=1))
    shard.send(
        enqueue_command(shard.keys, [shard.offer(f"https://h{number % 7}.example/{number}") for number in range(30)])
    )
    shard.run("claim", 5, 50_000, 0)
    shard.run("set_politeness", 2000, 2, 1, "0")
    before = shard.dump()
    shard.run("set_politeness", 2000, 2, 1, "0")
    assert shard.dump() == before


def test_of_many_hosts_a_bounded_number_is_placed_per_call(make_shard):
    shard = make_shard(politeness=Politeness(delay=100, concurrency=1))
    for start in range(0, 3000, 1000):
        urls = [f"https://h{number}.example/" for number in range(start, start + 1000)]
        shard.send(enqueue_command(shard.keys, [shard.offer(url) for url in urls]))
    for _ in range(3):
        shard.run("claim", 1000, 50_000, 0)
    cursor, calls = shard.run("set_politeness", 2000, 2, 1, "0"), 1
    while cursor != b"0":
        cursor, calls = shard.run("set_politeness", 2000, 2, 1, cursor), calls + 1
    assert calls > 2


def test_a_host_that_frees_a_place_meanwhile_is_not_forgotten(make_shard):
    """It stands nowhere, at the old cap; by the new one it never would have."""
    shard = make_shard(politeness=Politeness(delay=0, concurrency=1))
    for start in range(0, 2000, 500):
        urls = [f"https://h{number}.example/{page}" for number in range(start, start + 500) for page in "ab"]
        shard.send(enqueue_command(shard.keys, [shard.offer(url) for url in urls]))
    tokens = [token for _ in range(2) for token in shard.run("claim", 1000, 50_000, 0)[3::2]]
    assert len(tokens) == 2000
    cursor = shard.run("set_politeness", 0, 4, 1, "0")
    assert cursor != b"0"
    for start in range(0, 2000, 500):
        shard.run("settle", 500, *tokens[start : start + 500])
    while cursor != b"0":
        cursor = shard.run("set_politeness", 0, 4, 1, cursor)
    again = [token for _ in range(2) for token in shard.run("claim", 1000, 50_000, 0)[3::2]]
    assert len(again) == 2000


def test_all_hosts_that_rest_without_requests_rest_by_it(make_shard, client, clock):
    shard = make_shard(politeness=Politeness(delay=3000, concurrency=1))
    urls = [f"https://h{number}.example/" for number in range(900)]
    shard.send(enqueue_command(shard.keys, [shard.offer(url) for url in urls]))
    tokens = shard.run("claim", 900, 50_000, 0)[3::2]
    shard.run("settle", 900, *tokens)
    assert client.zcard(f"{shard.root}:idle") == 900
    position = shard.run("set_politeness", 2000, 2, 1, "0")
    while position != b"0":
        position = shard.run("set_politeness", 2000, 2, 1, position)
    assert {score for _, score in client.zrange(f"{shard.root}:idle", 0, -1, withscores=True)} == {clock.now + 2000}
