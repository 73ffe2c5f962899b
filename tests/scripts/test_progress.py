from __future__ import annotations

from silkline.frontier.verbs.enqueue import enqueue_command

LIMIT = 1000


def report(shard, token, value='[0.5,""]', name="p:1"):
    return shard.run("progress", token, name, 60_000, LIMIT, value)


def token_of(shard, client):
    shard.send(enqueue_command(shard.keys, [shard.offer("https://resize/1")]))
    shard.run("claim", 1, 5000, 0)
    (token,) = client.hkeys(f"{shard.root}:leased")
    return token


def test_a_progress_replaces_the_one_before(shard, client):
    token = token_of(shard, client)
    assert [report(shard, token), report(shard, token, '[1,""]')] == [b"stored", b"stored"]
    assert shard.run("result", "p:1")[1] == b'[1,""]'
    assert client.hlen(f"{shard.root}:results") == 1
    assert client.ttl(f"{shard.root}:results") > 0


def test_the_memory_of_results_is_bounded(shard, client):
    token = token_of(shard, client)
    for number in range(20):
        report(shard, token, "x" * 100, f"p:{number}")
    assert shard.get("result_bytes") <= LIMIT
    assert client.hlen(f"{shard.root}:results") == 4


def test_a_lease_that_is_lost_stores_nothing(shard, client):
    assert report(shard, "1.abc") == b"lost"
    assert client.exists(f"{shard.root}:results") == 0
