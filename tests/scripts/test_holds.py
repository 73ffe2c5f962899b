"""Whether a page may be on a shard: of many crawls only those are asked for it that may have it."""

from __future__ import annotations

import pytest
import redis

from silkline.frontier.admin_verbs import requests
from silkline.frontier.store.settings import SeenFilter
from silkline.frontier.verbs.enqueue import enqueue_command, mark_seen_command

PAGE = "https://a.example/"


def holds(shard, url=PAGE, *more):
    offer = shard.offer(url)
    return shard.send(requests.holds(shard.keys, offer.host, [offer.member, *more]))


@pytest.mark.parametrize("kind", ["exact", "compact", "bloom"])
def test_a_page_that_was_seen(make_shard, kind):
    shard = make_shard(seen=SeenFilter(kind))
    assert not holds(shard)
    shard.send(mark_seen_command(shard.keys, [shard.offer(PAGE).member]))
    assert holds(shard)
    assert not holds(shard, "https://a.example/other")
    assert holds(shard, "https://a.example/other", shard.offer(PAGE).member)


@pytest.mark.parametrize("priority", [0, 5, -5])
def test_a_host_for_which_requests_wait(shard, priority):
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/1", f"{priority} 0 d -")]))
    assert holds(shard)
    assert not holds(shard, "https://b.example/")


@pytest.mark.parametrize("state", ["delayed", "leased", "dead"])
def test_requests_that_are_delayed_leased_or_dead_may_be_any(shard, state):
    """They are not listed by host: they have to be looked through."""
    due = shard.clock() + 5000 if state == "delayed" else 0
    shard.send(enqueue_command(shard.keys, [shard.offer("https://b.example/1", f"0 {due} d -")]))
    if state != "delayed":
        token = shard.run("claim", 1, 50_000, 0)[3]
        assert shard.get("queued") == 0
        if state == "dead":
            assert shard.run("settle", 0, token, "bury", 0, "", "", "") == b""
    assert holds(shard)


def test_a_shard_that_is_not_there_is_an_error(shard, client):
    client.delete(shard.keys.ledger)
    with pytest.raises(redis.ResponseError, match="NOCRAWL"):
        holds(shard)
