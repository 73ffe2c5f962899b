from __future__ import annotations

from silkline.frontier.verbs.enqueue import enqueue_command


def test_the_books_are_made_to_agree(shard, client):
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(9)]))
    assert shard.run("check_balance", "1") == [9, 9, 0, 0, 0, 0]
    client.hset(f"{shard.root}:ledger", "accepted", 12)
    assert shard.run("check_balance", "") == [12, 9, 0, 0, 0, 0]
    shard.run("check_balance", "1")
    assert (shard.get("discarded"), shard.run("check_balance", "")[:2]) == (3, [12, 12])
    client.hset(f"{shard.root}:ledger", "accepted", 1)
    shard.run("check_balance", "1")
    assert (shard.get("accepted"), shard.run("check_balance", "")[:2]) == (12, [12, 12])
