from __future__ import annotations

import pytest

from silkline.frontier.store.settings import SeenFilter
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.mark.parametrize("kind", ["exact", "compact", "bloom"])
def test_it_reports_whether_and_in_which_lanes(make_shard, kind):
    shard = make_shard(seen=SeenFilter(kind))
    offer = shard.offer("https://a.example/", "5 0 - -")
    assert shard.run("seen", offer.member, "a.example") == [0, b"0"]
    shard.send(enqueue_command(shard.keys, [offer, shard.offer("https://a.example/2")]))
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/3", "-5 0 - -")]))
    assert shard.run("seen", offer.member, "a.example") == [1, b"5 0 -5"]
    assert shard.run("seen", shard.offer("https://a.example/never").member, "b.example") == [0, b"0"]
