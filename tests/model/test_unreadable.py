"""Records that cannot be read: damaged ones, and those of a later version."""

from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.settle import MOST_READS, READ_AGAIN_AFTER


@pytest.fixture
def damage(valkey, crawl):
    """Replaces the first waiting record of a host."""

    def damage_(host, record):
        with valkey.client() as client:
            client.lset(f"silkline:{{{crawl}:0}}:queue:0:{host}", 0, record)

    return damage_


@pytest.mark.parametrize("record", [b"\x04of a later version", b"\x02\xc1damaged", b"/\xff\xfe", b""])
def test_a_record_that_cannot_be_read_is_set_aside_and_the_others_continue(open_sync, damage, clock, caplog, record):
    frontier = open_sync(politeness=Politeness(delay=0, concurrency=100))
    frontier.enqueue([f"https://a.example/{number}" for number in range(5)])
    damage("a.example", record)
    leases = frontier.claim(10)
    assert [lease.url for lease in leases] == [f"https://a.example/{number}" for number in range(1, 5)]
    for lease in leases:
        frontier.complete(lease)
    stats = frontier.admin.stats()
    assert (stats.done, stats.delayed, stats.leased) == (4, 1, 0)
    assert "1 requests of the crawl" in caplog.text
    assert "set aside" in caplog.text
    assert frontier.claim(10) == []
    for _ in range(MOST_READS - 1):
        assert frontier.admin.stats().dead == 0
        clock.advance(READ_AGAIN_AFTER + 1)
        assert frontier.claim(10) == []
    (letter,) = frontier.admin.dead()
    assert letter.reason.startswith("its record cannot be read: ")
    assert (letter.host, letter.attempts) == ("a.example", MOST_READS)
    assert frontier.finished()
    assert frontier.admin.fsck().sound


def test_a_worker_of_the_later_version_takes_what_another_set_aside(open_sync, damage, clock, valkey, crawl):
    frontier = open_sync(politeness=Politeness(delay=0, concurrency=100))
    frontier.enqueue("https://a.example/")
    damage("a.example", b"\x04/")
    assert frontier.claim() == []
    with valkey.client() as client:  # as the later version would read it
        key = f"silkline:{{{crawl}:0}}:delayed"
        (member,) = client.zrange(key, 0, -1)
        client.delete(key)
        client.zadd(key, {member.replace(b"\x04/", b"/"): 0})
    clock.advance(READ_AGAIN_AFTER + 1)
    (lease,) = frontier.claim()
    assert lease.url == "https://a.example/"
