from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.claim import VACATED
from silkline.frontier.verbs.enqueue import enqueue_command


def full_host(make_shard):
    """A shard with a host at its cap of one, and its lease, and two leases in reserve."""
    shard = make_shard(politeness=Politeness(delay=0, concurrency=1))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(9)]))
    [one] = shard.run("claim", 9, 5000, 0)[3::2]
    two, three = shard.run("claim", 9, 5000, 0, "none", "", "a.example", 2)[3::2]
    return shard, one, two, three


def places(client, shard):
    """The leases that hold a place, by what is stored of them and of their host."""
    held = client.hgetall(f"{shard.root}:leased")
    counted = int((client.hget(f"{shard.root}:hosts", "a.example") or b"0").split()[0])
    with_place = {token for token, entry in held.items() if not entry.startswith(VACATED)}
    assert counted == len(with_place)
    return with_place


def test_a_place_is_handed_over(make_shard, client):
    shard, one, two, three = full_host(make_shard)
    assert places(client, shard) == {one}
    assert shard.run("hand_over", one, two, two, three) == b""
    assert places(client, shard) == {three}
    assert shard.run("settle", 2, one, two) == b""
    assert places(client, shard) == {three}
    assert shard.run("claim", 1, 5000, 0)[3:] == []
    assert shard.run("settle", 1, three) == b""
    assert len(shard.run("claim", 9, 5000, 0)[3::2]) == 1
    assert shard.run("check_leases", "", "0") == [b""]


def test_a_call_that_is_repeated_changes_nothing_more(make_shard):
    shard, one, two, three = full_host(make_shard)
    shard.run("hand_over", one, two, two, three)
    before = shard.dump()
    assert shard.run("hand_over", one, two, two, three) == two + b" " + three
    assert shard.dump() == before


def test_what_has_no_place_or_another_host_hands_over_nothing(make_shard):
    shard, one, two, three = full_host(make_shard)
    shard.send(enqueue_command(shard.keys, [shard.offer("https://b.example/")]))
    [other] = shard.run("claim", 1, 5000, 0)[3::2]
    before = shard.dump()
    assert shard.run("hand_over", two, three, one, "17", "17", two, other, two, one, one) == b" ".join(
        [three, b"17", two, two, one]
    )
    assert shard.dump() == before


def test_a_lease_that_has_ended_hands_over_nothing(make_shard, client):
    shard, one, two, _ = full_host(make_shard)
    shard.run("settle", 1, one)
    assert shard.run("hand_over", one, two) == two
    assert places(client, shard) == set()
