from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command

LATER = "0 4000000000000 - -"


@pytest.fixture
def offer(make_shard):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=10))
    shard.offer_all = lambda urls: shard.send(enqueue_command(shard.keys, [shard.offer(url) for url in urls]))
    return shard


def test_a_closed_shard_accepts_nothing_until_it_is_opened_again(offer):
    offer.offer_all(["https://a.example/1", "https://a.example/1"])
    offer.send(enqueue_command(offer.keys, [offer.offer("https://a.example/2", LATER)]))
    before = offer.dump()
    assert offer.run("close_unused", "close") == [2, 1]
    assert offer.run("close_unused", "close") == []
    assert offer.offer_all(["https://a.example/3"]) == b"c"
    assert offer.run("close_unused", "open") == [2, 1]
    assert offer.dump() == before
    assert offer.run("close_unused", "open") == []
    assert offer.offer_all(["https://a.example/3"]) == b"a"


@pytest.mark.parametrize("state", ["paused", "cancelled"])
def test_a_crawl_that_an_operator_has_paused_or_cancelled_stays_as_it_is(offer, state):
    offer.run("set_state", state)
    assert offer.run("close_unused", "close") == []
    assert offer.run("close_unused", "open") == []
    assert offer.run("set_state", state) == state.encode()


def test_a_shard_of_which_a_request_was_leased_stays_open(offer):
    offer.offer_all(["https://a.example/1"])
    offer.run("claim", 1, 30_000, 0, "none")
    assert offer.run("close_unused", "close") == []
    assert offer.offer_all(["https://a.example/2"]) == b"a"
