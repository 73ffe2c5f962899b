from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


def test_the_newest_letter_of_each_group_is_found_among_those_that_are_read(make_shard, clock):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=9))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(5)]))
    tokens, began = shard.run("claim", 5, 50_000, 0)[3::2], clock.now
    for token, reason in zip(tokens, ("a", "b", "a", "dns: no h3.example", "c"), strict=True):
        clock.advance(1)
        shard.run("settle", 0, token, "bury", 0, reason, "", "")
    ids = [token.partition(b".")[0] for token in tokens]
    reply = shard.run("dead_examples", 0, 9, "a", "b", "dns: no \u2026", "none")
    assert reply[0] == 5
    assert reply[1::4] == ["dns: no \u2026".encode(), b"a", b"b"]
    assert reply[2::4] == [ids[3], ids[2], ids[1]]
    assert [int(when) for when in reply[3::4]] == [began + 4000, began + 3000, began + 2000]
    assert reply[8].startswith(b"a\n\nh2.example\n")
    assert shard.run("dead_examples", 0, 2, "a") == [2]
    assert shard.run("dead_examples", 3, 9, "a", "b")[0:3] == [2, b"b", ids[1]]
    assert shard.run("dead_examples", 9, 9, "a") == [0]
