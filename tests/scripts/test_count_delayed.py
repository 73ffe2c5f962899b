from __future__ import annotations

import pytest

from silkline.frontier.verbs.enqueue import enqueue_command

LATER = "0 4000000000000 - -"


@pytest.fixture
def offer(make_shard):
    shard = make_shard()
    shard.delay = lambda urls: shard.send(enqueue_command(shard.keys, [shard.offer(url, LATER) for url in urls]))
    return shard


def counts(reply):
    delayed, examined, *pairs = reply
    return delayed, examined, dict(zip(pairs[::2], pairs[1::2], strict=True))


def test_it_counts_the_delayed_requests_of_each_host(offer):
    assert offer.run("count_delayed", 10) == [0, 0]
    offer.delay(["https://a.example/1", "https://a.example/2", "https://b.example/1"])
    assert counts(offer.run("count_delayed", 10)) == (3, 3, {b"a.example": 2, b"b.example": 1})


def test_of_many_it_examines_a_random_sample(offer):
    offer.delay([f"https://{host}.example/{page}" for host in "abcd" for page in range(200)])
    delayed, examined, found = counts(offer.run("count_delayed", 100))
    assert (delayed, examined, sum(found.values())) == (800, 100, 100)
    assert len(found) > 1, "and not the first hundred, which have one host"
