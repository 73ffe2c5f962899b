from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def shard(make_shard):
    return make_shard(politeness=Politeness(delay=2, concurrency=10))


def claimed(shard, slack=500, pages=3):
    """The token of a page whose host has more, and the time of its claim."""
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(pages)]))
    began, _, _, token, _ = shard.run("claim", 1, 5000, slack, "alone")
    return token, int(began.split()[0])


def opens(shard, client):
    return client.zscore(f"{shard.root}:waiting", "a.example")


def test_the_host_waits_for_its_delay_and_for_what_the_page_needed(shard, client):
    token, at = claimed(shard)
    assert opens(shard, client) == at + 2500
    assert shard.run("started", token, at, 500, 20) == b"2000"
    assert opens(shard, client) == at + 2020
    assert client.hget(f"{shard.root}:hosts", "a.example") == b"1 %d" % (at + 2020)


def test_sent_twice_it_is_the_same(shard):
    token, at = claimed(shard)
    shard.run("started", token, at, 500, 20)
    before = shard.dump()
    assert shard.run("started", token, at, 500, 20) == b"-"
    assert shard.dump() == before


@pytest.mark.parametrize(("moved", "slack", "used"), [(0, 500, 500), (0, 400, 0), (1, 500, 0)])
def test_what_does_not_fit_the_claim_changes_nothing(shard, moved, slack, used):
    token, at = claimed(shard)
    before = shard.dump()
    assert shard.run("started", token, at + moved, slack, used, "17", at, 500, 0) == b"- -"
    assert shard.dump() == before


def test_waiting_clients_learn_when_the_host_opens(shard, client):
    token, at = claimed(shard)
    with client.pubsub() as pubsub:
        pubsub.subscribe(shard.keys.channel)
        pubsub.get_message(timeout=5)
        shard.run("started", token, at, 500, 0)
        message = pubsub.get_message(timeout=5)
    assert message["data"] == b"2000"


def test_a_host_without_requests_rests_for_less(shard, client):
    token, at = claimed(shard, pages=1)
    assert shard.run("started", token, at, 500, 0) == b"2000"
    shard.run("settle", 1, token)
    assert client.zscore(f"{shard.root}:idle", "a.example") == at + 2000
