from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def full(make_shard, clock):
    """A shard with 1,200 dead letters of 3 hosts, buried at 3 times."""
    shard = make_shard(politeness=Politeness(delay=0, concurrency=1000))
    for moment in range(3):
        offers = [shard.offer(f"https://h{n % 3}.example/{moment}-{n}") for n in range(400)]
        shard.send(enqueue_command(shard.keys, offers))
        for token in shard.run("claim", 400, 5000, 0)[3::2]:
            shard.run("settle", 0, token, "bury", 0, f"reason {moment}", "", "")
        clock.advance(1)
    return shard


def sizes(shard):
    client, root = shard.client, shard.root
    hosts = sum(score for _, score in client.zrange(f"{root}:dead_hosts", 0, -1, withscores=True))
    reasons = dict(client.zrange(f"{root}:dead_reasons", 0, -1, withscores=True))
    cards = [client.hlen(f"{root}:dead"), client.zcard(f"{root}:buried"), client.zcard(f"{root}:dead_by_host")]
    return {*cards, int(hosts), int(sum(reasons.values())), shard.get("counted")}, reasons


def test_letters_are_dropped_in_steps_and_all_keys_agree(full):
    assert full.run("set_dead_limit", 100, b"{}") == 600
    assert sizes(full)[0] == {700}
    assert full.run("set_dead_limit", 100, b"{}") == 100
    assert full.run("set_dead_limit", 100, b"{}") == 0
    assert sizes(full) == ({100}, {b"reason 2": 100.0})
    assert (full.get("dead_limit"), full.get("dead_dropped"), full.get("discarded")) == (100, 1100, 1100)


def test_a_call_that_is_repeated_changes_nothing(full):
    while full.run("set_dead_limit", 50, b"{}"):
        pass
    before = full.dump()
    assert full.run("set_dead_limit", 50, b"{}") == 0
    assert full.dump() == before


def test_the_limit_can_be_taken_away(full):
    full.run("set_dead_limit", 5000, b"{}")
    assert full.run("set_dead_limit", "-", b"{}") == 0
    assert (full.get("dead_limit"), full.get("dead_dropped")) == (None, None)


def test_a_copy_of_the_settings_is_kept_up_to_date_where_there_is_one(full, client):
    client.hset(f"{full.root}:ledger", "settings", b"old")
    full.run("set_dead_limit", 5000, b"new")
    assert client.hget(f"{full.root}:ledger", "settings") == b"new"


def test_burying_drops_a_bounded_number_of_letters(full, client):
    """As many as it stores and a hundred more, if a change of the limit was interrupted or an earlier version buried some."""
    client.hset(f"{full.root}:ledger", "dead_limit", 10)
    full.send(enqueue_command(full.keys, [full.offer(f"https://new.example/{n}") for n in range(3)]))
    tokens = full.run("claim", 3, 5000, 0)[3::2]
    assert full.run("settle", 0, tokens[0], "bury", 0, "new", "", "") == b"+101"
    assert sizes(full)[0] == {1100}
    assert full.run("settle", 0, "7.dead", "bury", 0, "new", "", "") == b"7.dead", "without a letter, none is dropped"
    assert (
        full.run("settle", 0, tokens[1], "bury", 0, "new", "", "", "8.dead", "release", 0, "", "", "") == b"8.dead +101"
    )


def test_a_repeated_settle_drops_once_and_replies_alike(full, client):
    client.hset(f"{full.root}:ledger", "dead_limit", 1200)
    full.send(enqueue_command(full.keys, [full.offer("https://new.example/")]))
    [token] = full.run("claim", 1, 5000, 0)[3::2]
    for _ in range(2):
        assert full.run("settle", 0, token, "bury", 0, "new", "", "", call=("client:1", 5)) == b"+1"
    assert full.get("dead_dropped") == 1


def test_letters_that_are_not_counted_yet_are_dropped_without_counting(full, client):
    """While fsck counts the groups again, newer letters are in no count."""
    assert full.run("recount", "1") == [b"more", 800]
    while full.run("set_dead_limit", 300, b"{}"):
        pass
    assert full.get("counted") == 0
    assert full.run("recount", "") == [b"done", 300]
    assert sizes(full) == ({300}, {b"reason 2": 300.0})


def test_a_burial_time_without_its_letter_is_dropped_too(full, client):
    oldest = client.zrange(f"{full.root}:buried", 0, 0)[0]
    client.hdel(f"{full.root}:dead", oldest)
    full.run("set_dead_limit", 1199, b"{}")
    assert client.zscore(f"{full.root}:buried", oldest) is None
    assert full.get("dead_dropped") == 1
