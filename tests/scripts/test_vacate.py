from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.claim import VACATED
from silkline.frontier.verbs.enqueue import enqueue_command


def claimed(shard, count=2):
    """As many tokens as the host's cap allows, with more behind them."""
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(9)]))
    return shard.run("claim", count, 5000, 0)[3::2]


def test_a_place_is_free_and_the_lease_continues(make_shard, client):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=2))
    one, two = claimed(shard)
    assert client.hget(f"{shard.root}:hosts", "a.example").split()[0] == b"2"
    assert shard.run("vacate", one) == b""
    assert client.hget(f"{shard.root}:hosts", "a.example").split()[0] == b"1"
    assert client.hget(f"{shard.root}:leased", one).startswith(VACATED + b"a.example\n")
    [three] = shard.run("claim", 9, 5000, 0)[3::2]
    assert shard.run("settle", 3, one, two, three) == b""
    assert client.hget(f"{shard.root}:hosts", "a.example") is None
    assert client.hget(f"{shard.root}:ledger", "done") == b"3"


def test_reported_twice_or_again_it_frees_one_place(make_shard, client):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=2))
    one, _ = claimed(shard)
    assert shard.run("vacate", one, one) == b""
    before = shard.dump()
    assert shard.run("vacate", one) == b""
    assert shard.dump() == before
    assert client.hget(f"{shard.root}:hosts", "a.example").split()[0] == b"1"


def test_tokens_that_are_not_held_are_reported_and_change_nothing(shard):
    before = shard.dump()
    assert shard.run("vacate", "1", "nonsense") == b"1 nonsense"
    assert shard.dump() == before


def test_leases_and_places_are_checked_apart(make_shard, client):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=2))
    one, _ = claimed(shard)
    shard.run("vacate", one)
    assert shard.run("check_leases", "", "0") == [b""]
    client.hset(f"{shard.root}:hosts", "a.example", "2 0")
    assert shard.run("check_leases", "1", "0") == [b"", b"a.example"]
    assert client.hget(f"{shard.root}:hosts", "a.example").split()[0] == b"1"


def test_who_waits_is_reported_that_a_host_is_open_again(make_shard, client):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=2))
    one, _ = claimed(shard)
    with client.pubsub() as bell:
        bell.subscribe(f"{shard.root}:bell")
        assert bell.get_message(timeout=60)["type"] == "subscribe"
        shard.run("vacate", one)
        assert bell.get_message(timeout=60)["data"] == b"0"
