from __future__ import annotations

from silkline import Politeness
from silkline.frontier.admin_verbs.dead_letters import DeadFilter
from silkline.frontier.verbs.enqueue import enqueue_command


def test_the_reply_counts_what_matches_by_reason_and_host(make_shard):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=9))
    shard.send(
        enqueue_command(shard.keys, [shard.offer(f"https://h{number % 2}.example/{number}") for number in range(6)])
    )
    for number, token in enumerate(shard.run("claim", 9, 5000, 0)[3::2]):
        shard.run("settle", 0, token, "bury", 0, "odd https://x.example/1" if number % 2 else "even", "", "")
    looked, found, reasons, hosts = shard.run("count_dead", 0, 100, *DeadFilter(reason="odd …").arguments())
    assert (looked, found) == (6, 3)
    assert reasons == ["odd …".encode(), 3]
    assert sum(hosts[1::2]) == 3
    assert shard.run("count_dead", 4, 100, *DeadFilter().arguments())[:2] == [2, 2]
    assert shard.run("count_dead", 6, 100, *DeadFilter().arguments()) == [0, 0, [], []]
