from __future__ import annotations


def test_the_newest_act_comes_first_and_the_oldest_go(shard, clock, client):
    key = shard.layout.keys.audit
    assert shard.run("append_audit", "ana@desk", "pause", "", key=key) == b"noted"
    clock.advance(1)
    shard.run("append_audit", "bo@lab", "resume", "a.example", key=key)
    newest, oldest = client.lrange(key, 0, -1)
    assert newest == f"{clock.now}\nbo@lab\nresume\na.example".encode()
    assert oldest.endswith(b"\nana@desk\npause\n")
    for number in range(1010):
        shard.run("append_audit", "bo@lab", "pause", str(number), key=key)
    assert client.llen(key) == 1000


def test_an_act_that_is_sent_twice_is_noted_once(shard, client):
    key = shard.layout.keys.audit
    for _ in range(2):
        assert shard.run("append_audit", "ana@desk", "pause", "", key=key, call=("c:1", 3)) == b"noted"
    assert client.llen(key) == 1
