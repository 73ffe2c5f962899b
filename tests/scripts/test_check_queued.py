from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


def test_hosts_of_every_place_are_counted_once(make_shard, client):
    shard = make_shard(politeness=Politeness(delay=10, concurrency=1))
    for host in ("ready", "waiting", "busy", "paused"):
        shard.send(
            enqueue_command(shard.keys, [shard.offer(f"https://{host}.example/{number}") for number in range(3)])
        )
    shard.run("set_host", "paused.example", "", "", "", "", 1, "")
    leases = shard.run("claim", 3, 50_000, 0)[3:]
    for token, entry in zip(leases[::2], leases[1::2], strict=True):
        if not entry.startswith(b"busy"):
            shard.run("settle", 0, token, "release", 0, "", "", "")
    queued = shard.get("queued")
    assert shard.run("check_queued", "", "ready 0", 0, "")[:2] == [b"", queued]
    client.hset(f"{shard.root}:ledger", "queued", 99)
    moves = shard.get("moves")
    assert shard.run("check_queued", "", "ready 0", 0, "") == [b"", queued, str(moves).encode(), 99]
    assert shard.get("queued") == 99
    assert shard.run("check_queued", "1", "ready 0", 0, "")[1:] == [queued, str(moves).encode(), 99]
    assert shard.get("queued") == queued


def test_what_moved_meanwhile_is_not_added_up(shard):
    assert shard.run("check_queued", "1", "waiting 0", 5, "777")[0] == b"moved"
    assert shard.get("queued") is None


def test_many_hosts_take_several_calls(make_shard):
    shard = make_shard(politeness=Politeness(delay=0))
    for part in range(11):
        offers = [shard.offer(f"https://h{part}-{number}.example/") for number in range(1000)]
        shard.send(enqueue_command(shard.keys, offers))
    position, counted, moves, told = shard.run("check_queued", "", "ready 0", 0, "")
    assert (position, counted, told) == (b"ready 10000", 10_000, 11_000)
    assert shard.run("check_queued", "", position, counted, moves)[:2] == [b"", 11_000]
