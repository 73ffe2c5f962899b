from __future__ import annotations

import pytest

from silkline.frontier.store.settings import SeenFilter
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.mark.parametrize("kind", ["exact", "compact", "bloom"])
def test_what_was_seen_is_counted(make_shard, client, kind):
    shard = make_shard(seen=SeenFilter.parse(kind))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(900)]))
    assert shard.run("check_seen", "", "", 0, "")[:2] == [b"", 900]
    client.hset(f"{shard.root}:ledger", "seen_count", 5)
    shard.run("check_seen", "1", "", 0, "")
    assert shard.get("seen_count") == (5 if kind == "bloom" else 900)
    if kind != "bloom":
        assert shard.run("check_seen", "1", "9", 3, "12345")[0] == b"moved"
