from __future__ import annotations

from silkline.frontier.verbs.history import COARSE, FINE


def test_it_reads_the_last_steps_the_oldest_first(shard, clock):
    key = shard.layout.keys.settings
    shard.run("create", b"settings", key=key)
    for count in (1, 2, 3):
        clock.advance(FINE.step)
        shard.run("add_history", count, "", "", key=key)
    last, *kept = shard.run("history", "fine", 5, key=key)
    assert int(last) == clock.now // (FINE.step * 1000)
    assert [step.partition(b";;")[2] for step in kept] == [b"", b"", b"1", b"2", b"3"]


def test_it_reads_no_more_than_a_ring_has(shard):
    key = shard.layout.keys.settings
    shard.run("create", b"settings", key=key)
    assert len(shard.run("history", "fine", 10_000, key=key)) == FINE.size + 1
    assert len(shard.run("history", "coarse", 10_000, key=key)) == COARSE.size + 1
