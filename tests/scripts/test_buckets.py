"""The seen filter's buckets, when clients say in which bucket a fingerprint belongs."""

from __future__ import annotations

import random

import pytest

from silkline import Admission, Politeness, SyncFrontier
from silkline.frontier.store.record import EXACT_LEAST, EXACT_RANGE, Offer, bucket_finder
from silkline.frontier.verbs.enqueue import enqueue_command


def bucket_of(member, count):
    return int(bucket_finder(count)(member))


def buckets(client, root):
    """Members by the number of their bucket."""
    names = client.scan_iter(f"{root}:seen:*", count=10_000)
    return {int(name.rpartition(b":")[2]): {member.decode() for member in client.smembers(name)} for name in names}


def test_every_member_lies_where_client_and_script_look_for_it(valkey, crawl):
    urls = [f"https://h{number % 50}.example/{number}" for number in range(30_000)]
    with SyncFrontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0)) as frontier:
        assert set(frontier.enqueue(urls[:20_000])) == {Admission.ADDED}
        with SyncFrontier.open(valkey.url, crawl=crawl) as other:  # each makes the other's knowledge old
            for start in range(20_000, 30_000, 500):
                client = other if start % 1000 else frontier
                assert set(client.enqueue(urls[start : start + 500])) == {Admission.ADDED}
            for client in (frontier, other):
                assert set(client.enqueue(urls)) == {Admission.SEEN}
        with valkey.client() as client:
            found = buckets(client, frontier.layout.shards[0].root)
        count = frontier.layout.buckets[0]
    assert sum(map(len, found.values())) == len(urls)
    assert count <= min(found)
    assert max(found) < 2 * count
    for number, members in found.items():
        assert {bucket_of(member, count) for member in members} == {number}


@pytest.mark.parametrize("age", [0, 1, 5, 63, 64, 65, 200])
def test_knowledge_of_any_age_does_no_harm(shard, age):
    rng = random.Random(age)
    marks = [str(EXACT_LEAST + rng.randrange(EXACT_RANGE)) for _ in range(60_000)]
    offers = [Offer(0, "", 0, mark, "a.example", "", "/") for mark in marks]
    for start in range(0, len(offers), 1000):
        told = max(0, (shard.get("buckets") or 16) - age)
        batch = offers[start : start + 1000]
        assert shard.send(enqueue_command(shard.keys, batch, buckets=told)) == b"a" * len(batch)
    for start in range(0, len(offers), 1000):
        told = shard.get("buckets") + (7 if age == 5 else -age)  # a server that lost its last second knows of fewer
        batch = offers[start : start + 1000]
        assert shard.send(enqueue_command(shard.keys, batch, buckets=max(0, told))) == b"s" * len(batch)


def test_the_ranges_of_buckets_are_halves_of_halves():
    rng = random.Random(1)
    for _ in range(2000):
        mark, count = str(EXACT_LEAST + rng.randrange(EXACT_RANGE)), rng.randrange(16, 100_000)
        before, after = bucket_of(mark, count), bucket_of(mark, count + 1)
        assert count <= before < 2 * count
        assert after == before or (before == count and after in (2 * count, 2 * count + 1))
