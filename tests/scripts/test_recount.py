from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


def test_letters_are_counted_again_in_steps(make_shard, client, clock):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=1000))
    for _ in range(2):
        shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{clock.now}{n}") for n in range(400)]))
        for token in shard.run("claim", 400, 5000, 0)[3::2]:
            shard.run("settle", 0, token, "bury", 0, "no", "", "")
        clock.advance(1)
    client.delete(f"{shard.root}:dead_reasons", f"{shard.root}:dead_hosts")
    client.hset(f"{shard.root}:ledger", "counted", 3)
    assert shard.run("recount", "") == [b"done", 0], "nobody has begun"
    assert shard.run("recount", "1") == [b"more", 800], "letters of one moment are counted together"
    assert shard.run("recount", "") == [b"done", 0]
    assert client.zrange(f"{shard.root}:dead_hosts", 0, -1, withscores=True) == [(b"a.example", 800.0)]
    assert (shard.get("counted"), shard.get("recount")) == (800, None)
