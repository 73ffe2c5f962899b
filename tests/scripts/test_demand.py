from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def offer(make_shard):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=2))
    shard.offer_all = lambda urls: shard.send(enqueue_command(shard.keys, [shard.offer(url) for url in urls]))
    return shard


def test_it_answers_the_age_and_what_the_hosts_it_read_may_start(offer, clock):
    offer.offer_all(["https://a.example/1", "https://a.example/2", "https://a.example/3", "https://b.example/1"])
    clock.advance(10)
    assert offer.run("demand", 200) == [b"10000", 2, 2, 3]
    assert offer.run("demand", 1)[1:3] == [2, 1]


def test_it_reads_no_more_hosts_than_it_may(offer):
    offer.offer_all([f"https://h{number}.example/{page}" for number in range(300) for page in range(3)])
    assert offer.run("demand", 50)[1:] == [300, 50, 100]


def test_marks_of_turns_stay_few(offer, client, clock):
    """A thousand hosts in line for a day, one more every few seconds: some hundred marks tell since when each waits."""
    for number in range(1000):
        clock.advance(86)
        offer.offer_all([f"https://h{number}.example/"])
    marks = client.zcard(f"{offer.root}:turns")
    assert marks < 600
    assert int(offer.run("demand", 10)[0]) == pytest.approx(999 * 86_000, rel=0.02)
