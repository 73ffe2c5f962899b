"""Priorities hold across shards, at no more scripts than without them."""

from __future__ import annotations

import random

import pytest

from silkline import Frontier, Politeness, Request

SHARDS, REQUESTS, URGENT = 64, 400, 40


def batch(priority):
    """One request per host; every tenth has this priority."""
    requests = [Request(f"https://h{n}.example/", priority=priority if n % 10 == 0 else 0) for n in range(REQUESTS)]
    random.Random(7).shuffle(requests)
    return requests


async def claim_all(subject, server, crawl, priority, n, wait, *, who):
    """Return the leases in order, and how many scripts the claims ran. *who* claims enqueued them, listens meanwhile, or comes later."""
    opened = {"url": server.url, "crawl": f"{crawl}-{priority}", "shards": SHARDS, "politeness": Politeness(delay=0)}
    producer = await subject(**opened)
    consumer = producer if who == "producer" else await subject(**opened)
    if who == "listener":
        await consumer.claim(1, wait=0.01)
    await producer.enqueue(batch(priority))
    if who == "latecomer":
        consumer = await subject(**opened)
    leases = []
    with server.client() as client:
        client.config_resetstat()
        while len(leases) < REQUESTS:
            leases += await consumer.claim(n, wait=wait)
        return leases, client.info("commandstats")["cmdstat_evalsha"]["calls"]


def urgent(leases):
    return sum(lease.request.priority > 0 for lease in leases[:URGENT])


@pytest.mark.parametrize(("who", "wait"), [("producer", 0), ("producer", 20), ("listener", 20), ("latecomer", 0)])
async def test_urgent_requests_of_all_shards_come_first(own_server, subject, crawl, who, wait):
    server = own_server()
    _, plain = await claim_all(subject, server, crawl, 0, 1, wait, who=who)
    leases, scripts = await claim_all(subject, server, crawl, 10, 1, wait, who=who)
    assert urgent(leases) >= 36
    assert scripts <= 1.1 * plain
    assert plain <= 1.1 * REQUESTS


async def test_claims_of_several_requests_keep_the_order_too(own_server, subject, crawl):
    """A burst of urgent requests costs at most one more script for each shard that has some."""
    server = own_server()
    for n in (4, 40):
        _, plain = await claim_all(subject, server, f"{crawl}-{n}", 0, n, 0, who="producer")
        leases, scripts = await claim_all(subject, server, f"{crawl}-{n}", 10, n, 0, who="producer")
        assert urgent(leases) >= 36
        assert scripts <= plain + SHARDS


async def test_many_different_priorities_cost_hardly_more_scripts(own_server, crawl):
    server = own_server()
    counts = []
    for distinct in (1, 1000):
        options = {"crawl": f"{crawl}-{distinct}", "shards": 8, "politeness": Politeness(delay=0)}
        async with await Frontier.open(server.url, **options) as frontier:
            dice = random.Random(7)
            await frontier.enqueue(
                [Request(f"https://h{n}.example/", priority=dice.randrange(distinct)) for n in range(4000)]
            )
            with server.client() as client:
                client.config_resetstat()
                while await frontier.claim(10):
                    pass
                counts.append(client.info("commandstats")["cmdstat_evalsha"]["calls"])
    assert counts[1] <= 1.1 * counts[0] + 8


async def test_priorities_hold_on_a_cluster(cluster, crawl):
    options = {"crawl": crawl, "shards": SHARDS, "politeness": Politeness(delay=0)}
    async with await Frontier.open(cluster.url, **options) as frontier:
        await frontier.enqueue(batch(10))
        async with await Frontier.open(cluster.url, crawl=crawl) as other:
            assert urgent([lease for _ in range(10) for lease in await other.claim(4, wait=20)]) >= 36
