"""Waiting for work: the bell is heard at once, and silence costs next to nothing."""

from __future__ import annotations

import asyncio
import math
import random
import time
from statistics import median

import pytest

from silkline import Politeness
from silkline.core.lookout import Lookout

AT_ONCE = Politeness(delay=0, concurrency=1000)


@pytest.mark.parametrize("shards", [1, 16])
async def test_work_is_heard_of_by_the_bell_and_within_milliseconds(subject, shards, monkeypatch, capsys):
    """No client may look of its own accord here: a ring that is missed is a claim that comes back empty."""
    monkeypatch.setattr("silkline.core.lookout.SAFETY_LOOK", math.inf)
    dice = random.Random(7)
    consumer = await subject(politeness=AT_ONCE, shards=shards)
    producer = await subject()
    sent, delays = {}, []

    async def produce():
        for number in range(200):
            await asyncio.sleep(dice.uniform(0, 0.02))
            url = f"https://h{number}.example/"
            sent[url] = time.monotonic()
            await producer.enqueue(url)

    producing = asyncio.create_task(produce())
    while len(delays) < 200:
        leases = await consumer.claim(10, wait=20)
        now = time.monotonic()
        assert leases
        delays += [now - sent[lease.url] for lease in leases]
        for lease in leases:
            await consumer.complete(lease)
    await producing
    delays.sort()
    with capsys.disabled():
        print(f"\n  wake-up, {shards} shards: median {delays[100] * 1000:.1f} ms, p99 {delays[197] * 1000:.1f} ms")
    assert median(delays) < 0.05


def scripts_run(client):
    return client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]


async def test_a_client_that_waits_is_silent(own_server, subject, capsys):
    """Long enough for every shard to be looked at once, in case a ring was lost."""
    seconds = 7
    numbers = (1, 16, 64)
    servers = [own_server() for _ in numbers]
    opened = [await subject(url=server.url, shards=shards) for server, shards in zip(servers, numbers, strict=True)]
    clients = [server.client() for server in servers]
    for frontier, client in zip(opened, clients, strict=True):
        await frontier.claim(1, wait=0.01)
        client.config_resetstat()
    assert await asyncio.gather(*(frontier.claim(1, wait=seconds) for frontier in opened)) == [[], [], []]
    for client, shards in zip(clients, numbers, strict=True):
        rate = scripts_run(client) / seconds
        with capsys.disabled():
            print(f"\n  idle, {shards} shards: {rate:.1f} scripts/s")
        assert shards / 10 <= rate < 20
        client.close()


async def test_a_client_that_waits_for_slow_hosts_is_nearly_silent(own_server, subject):
    """Hosts open every few milliseconds; the looks of one client keep their distance all the same."""
    server = own_server()
    frontier = await subject(url=server.url, politeness=Politeness(delay=30))
    await frontier.enqueue([f"https://h{host}.example/{page}" for host in range(200) for page in range(2)])
    while await frontier.claim(100):
        pass
    other = await subject(url=server.url)
    await other.claim(1, wait=0.01)
    with server.client() as client:
        client.config_resetstat()
        began = time.monotonic()
        for number in range(100):
            await frontier.set_host(f"h{number}.example", block_until=time.time() + 20 - number / 10)
        assert await other.claim(1, wait=max(0.1, 2 - (time.monotonic() - began))) == []
        scripts = scripts_run(client) - 200
    assert scripts / 2 < 20


async def test_an_enqueue_is_seen_by_the_very_next_claim(subject):
    """A client that once waited has a bell, which it may not have heard yet."""
    frontier = await subject(politeness=AT_ONCE)
    assert await frontier.claim(1, wait=0.01) == []
    for number in range(50):
        await frontier.enqueue(f"https://h{number}.example/")
        [lease] = await frontier.claim(1)
        await frontier.complete(lease)


def test_a_ring_that_is_heard_before_an_older_answer_is_not_drowned_by_it():
    """The bell and the answers come over two connections, in any order."""
    lookout = Lookout(2)
    lookout.heard(0, 0.0, now=10.5)
    lookout.answered(0, None, asked=10.0, now=11.0)  # this answer is from before the ring
    lookout.answered(1, None, asked=10.0, now=11.0)
    assert lookout.due(11.0) == [0]
    lookout.answered(0, None, asked=11.0, now=11.1)  # this one from after it
    assert lookout.due(11.2) == []
    lookout.heard(0, 2.0, now=12.0)
    lookout.answered(0, 1.0, asked=11.9, now=12.1)
    assert lookout.next_look == pytest.approx(13.1)
