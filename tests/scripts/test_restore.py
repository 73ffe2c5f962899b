from __future__ import annotations

from silkline.frontier.verbs.enqueue import enqueue_command


def test_only_a_shard_without_a_ledger_gets_one(shard, client):
    before = shard.dump()
    assert shard.run("restore", "schema", 1, "state", "open") == 0
    assert shard.dump() == before
    client.delete(shard.keys.ledger)
    assert shard.run("restore", "schema", 1, "state", "open") == 1
    assert client.hget(shard.keys.ledger, "state") == b"open"


def test_turns_continue_from_the_last_one(shard, client):
    for number in range(3):
        shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/")]))
    turn = shard.get("turn")
    assert turn == 3
    client.delete(shard.keys.ledger)
    shard.run("restore", "schema", 1, "state", "open")
    assert shard.get("turn") == turn
