from __future__ import annotations

LETTERS = ["a.example", "not JSON", "/1", "b.example", "too long", "/2"]


def test_requests_become_dead_letters_that_count_as_accepted(shard, client):
    assert shard.run("add_dead", *LETTERS) == b"stored"
    assert (shard.get("accepted"), shard.get("queued")) == (2, None)
    letters = client.hvals(f"{shard.root}:dead")
    assert [letter.split(b"\n")[:3] for letter in letters] == [
        [b"not JSON", b"", b"a.example"],
        [b"too long", b"", b"b.example"],
    ]
    assert client.zcard(f"{shard.root}:buried") == 2
    assert client.zrange(f"{shard.root}:dead_hosts", 0, -1) == [b"a.example", b"b.example"]
    assert client.zcard(f"{shard.root}:dead_by_host") == 2


def test_a_call_sent_again_stores_nothing_more(shard, client):
    for _ in range(2):
        assert shard.run("add_dead", *LETTERS, call=("client:7", 1)) == b"stored"
    assert client.hlen(f"{shard.root}:dead") == 2


def test_the_limit_of_dead_letters_holds(make_shard, client):
    shard = make_shard(dead_limit=3)
    for _ in range(5):
        shard.run("add_dead", *LETTERS)
    assert client.hlen(f"{shard.root}:dead") == 3
    assert (shard.get("accepted"), shard.get("discarded")) == (10, 7)


def test_a_cancelled_crawl_stores_none(shard, client):
    shard.run("set_state", "cancelled")
    assert shard.run("add_dead", *LETTERS) == b"cancelled"
    assert client.exists(f"{shard.root}:dead") == 0
