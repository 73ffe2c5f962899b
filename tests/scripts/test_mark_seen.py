from __future__ import annotations

import pytest

from silkline.frontier.admin_verbs.requests import seen_command
from silkline.frontier.store.settings import SeenFilter
from silkline.frontier.verbs.enqueue import enqueue_command, identity_member


@pytest.mark.parametrize("kind", ["exact", "compact", "bloom"])
def test_marks_are_counted_once_and_enqueue_nothing(make_shard, kind):
    shard = make_shard(seen=SeenFilter(kind))
    marks = [identity_member(shard.layout, f"page {number}".encode()) for number in range(300)]
    assert shard.run("mark_seen", *marks) == b"marked"
    assert shard.run("mark_seen", *marks[:10], marks[0]) == b"marked"
    assert shard.get("seen_count") == 300
    assert (shard.get("queued"), shard.get("accepted")) == (None, None)
    assert all(shard.send(seen_command(shard.keys, mark, "a.example"))[0] for mark in marks)
    assert shard.send(seen_command(shard.keys, identity_member(shard.layout, b"another"), "a.example"))[0] == 0


def test_marks_and_requests_fill_the_same_buckets(make_shard):
    """The filter grows by marks alone, and what was there before is found again."""
    shard = make_shard()
    offers = [shard.offer(f"https://a.example/{number}") for number in range(100)]
    shard.send(enqueue_command(shard.keys, offers))
    for start in range(0, 5000, 1000):
        shard.run("mark_seen", *(identity_member(shard.layout, bytes([5]) * n) for n in range(start, start + 1000)))
    assert shard.get("buckets") > 16
    assert shard.send(enqueue_command(shard.keys, offers)) == b"s" * 100
