from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


def test_the_reply_names_what_is_wrong_and_a_repair_puts_it_right(make_shard, client):
    shard = make_shard(politeness=Politeness(delay=0))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://{host}.example/") for host in "ab"]))
    assert shard.run("check_hosts", "", "ready", "0") == [b""]
    assert shard.run("check_hosts", "", "named", "0", "0 a.example", "0 b.example") == [b""]
    client.zrem(f"{shard.root}:ready", "a.example")
    client.zadd(f"{shard.root}:waiting", {"nobody.example": 5})
    before = shard.dump()
    assert shard.run("check_hosts", "", "named", "0", "0 a.example") == [b"", b"lost", b"a.example"]
    assert shard.run("check_hosts", "", "waiting", "0") == [b"", b"empty", b"nobody.example"]
    assert shard.dump() == before
    assert shard.run("check_hosts", "1", "named", "0", "0 a.example")[1:] == [b"lost", b"a.example"]
    assert shard.run("check_hosts", "1", "waiting", "0")[1:] == [b"empty", b"nobody.example"]
    assert client.zrange(f"{shard.root}:ready", 0, -1) == [b"b.example", b"a.example"]
    assert client.exists(f"{shard.root}:waiting") == 0


def test_a_long_line_is_checked_in_pages(make_shard):
    shard = make_shard(politeness=Politeness(delay=0))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(600)]))
    assert shard.run("check_hosts", "", "ready", "0") == [b"500"]
    assert shard.run("check_hosts", "", "ready", "500") == [b""]
    assert shard.run("check_hosts", "", "lanes", "0") == [b""]
