from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


def test_hosts_are_reported_how_many_leases_they_have(make_shard, client):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=2))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(9)]))
    shard.run("claim", 2, 50_000, 0)
    assert shard.run("check_leases", "", "0") == [b""]
    client.hset(f"{shard.root}:hosts", "a.example", "7 0")
    assert shard.run("check_leases", "", "0") == [b"", b"a.example"]
    assert shard.run("check_leases", "1", "0") == [b"", b"a.example"]
    assert client.hget(f"{shard.root}:hosts", "a.example") == b"2 0"
    client.delete(f"{shard.root}:hosts")
    assert shard.run("check_leases", "1", "0") == [b"", b"a.example"]
    assert shard.run("check_leases", "1", "0") == [b""]
