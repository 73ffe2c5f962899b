from __future__ import annotations

import pytest

from silkline import Budget
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def shard(make_shard, client):
    """A shard of a crawl with a page budget that has been granted nothing yet."""
    shard = make_shard(budget=Budget(pages=100))
    client.hset(f"{shard.root}:ledger", "allowance", 0)
    return shard


def test_an_allowance_only_grows_inside_an_epoch(shard):
    assert shard.run("set_allowance", "read", 0, 0) == [0, 0]
    assert shard.run("set_allowance", "allow", 0, 5) == [0, 5]
    assert shard.run("set_allowance", "allow", 0, 3) == [0, 5]
    assert shard.run("set_allowance", "allow", 0, 5) == [0, 5]
    assert shard.run("set_allowance", "allow", 1, 9) == [0, 5]


def test_what_is_surrendered_cannot_be_allowed_again_by_a_late_message(shard):
    shard.run("set_allowance", "allow", 0, 5)
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(9)]))
    tokens = shard.run("claim", 2, 5000, 0)[3::2]
    shard.run("settle", 1, tokens[0])
    assert shard.run("set_allowance", "surrender", 0, 0) == [1, 2]
    assert shard.run("set_allowance", "allow", 0, 5) == [1, 2]
    assert shard.run("set_allowance", "surrender", 0, 0) == [1, 2]
    assert shard.run("claim", 9, 5000, 0)[3:] == []
    assert shard.run("set_allowance", "allow", 1, 3) == [1, 3]
    assert len(shard.run("claim", 9, 5000, 0)[3::2]) == 1
