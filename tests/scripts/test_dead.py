from __future__ import annotations

import pytest

from silkline.frontier import commands
from silkline.frontier.filters import DeadFilter


@pytest.mark.parametrize("status", ["", "404", "-1"])
def test_the_reply_holds_the_letters_newest_first(shard, clock, status):
    shard.send(commands.enqueue(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(3)]))
    tokens = shard.run("claim", 3, 50_000, 0)[3::2]
    began = clock.now
    for token in tokens:
        clock.advance(1)
        shard.run("settle", 0, token, "bury", 0, "a reason", status, "")
    reply = shard.run("dead", 0, 2, *DeadFilter().arguments())
    assert reply[0] == 2
    assert reply[1::3] == [tokens[2], tokens[1]]
    assert [int(when) for when in reply[2::3]] == [began + 3000, began + 2000]
    assert reply[3] == f"a reason\n{status}\nh2.example\n0\n1\n0\n{began}\n/".encode()
    assert shard.run("dead", 2, 2, *DeadFilter().arguments())[0] == 1
    assert shard.run("dead", 0, 9, *DeadFilter(reason="[").arguments()) == [3]
