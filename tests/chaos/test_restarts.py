"""Servers that go down, come back without their scripts, or come back without their last words."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time

import pytest

from silkline import Admission, Politeness
from silkline.errors import LeaseLost, StoreUnavailable
from tests.chaos.subject import crawl_all

AT_ONCE = Politeness(delay=0, concurrency=1000)
URLS = [f"https://h{number % 7}.example/{number}" for number in range(40)]


@pytest.fixture
def by_bell(monkeypatch):
    """No client looks of its own accord: what is claimed after a wait was heard of by the bell."""
    monkeypatch.setattr("silkline.frontier.transport.notifier.SAFETY_POLL", math.inf)


async def test_while_the_server_is_down_every_verb_says_so_and_then_all_continues(own_server, subject):
    server = own_server(appendonly="yes", appendfsync="always")
    frontier = await subject(url=server.url, politeness=AT_ONCE, lease=60)
    await frontier.enqueue(URLS)
    held = await frontier.claim(10)
    await frontier.complete(held[0])
    server.kill()
    verbs = [
        frontier.enqueue("https://x.example/"),
        frontier.claim(1),
        frontier.complete(held[1], ["https://y.example/"]),
        frontier.retry(held[2]),
        frontier.extend(held[3:5]),
        frontier.admin.stats(),
        frontier.finished(),
        frontier.admin.explain(URLS[0]),
        frontier.admin.hosts(),
        frontier.admin.set_host("h1.example", delay=1),
        frontier.admin.revive(),
        frontier.admin.pause(),
    ]
    for answer in await asyncio.gather(*verbs, return_exceptions=True):
        assert isinstance(answer, StoreUnavailable), repr(answer)
        assert str(server.socket) in str(answer)
    server.start()
    for lease in held[1:]:
        await frontier.complete(lease)
    assert sorted(await crawl_all(frontier)) == sorted(set(URLS) - {lease.url for lease in held})
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert stats.done == stats.accepted == len(URLS)


async def test_a_claim_that_starts_to_wait_while_the_server_is_down_does_not_hang(own_server, subject):
    server = own_server()
    frontier = await subject(url=server.url)
    server.kill()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(frontier.claim(1, wait=0.1), 100)
    server.start()


def flush(server):
    """Wait until all that was written is on the disk."""
    with server.client() as client:
        client.set("last", "write")
        client.execute_command("WAITAOF", 1, 0, 30_000)


@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_a_restart_in_the_middle_of_calls_goes_unnoticed(own_server, subject, fsync):
    server = own_server(appendonly="yes", appendfsync=fsync)
    frontier = await subject(url=server.url, politeness=AT_ONCE)
    flush(server)
    answers = []

    async def enqueue_all():
        for number in range(150):
            answers.extend(await frontier.enqueue([f"https://a.example/{number}", f"https://b.example/{number}"]))

    producer = asyncio.create_task(enqueue_all())
    for _ in range(2):
        await asyncio.sleep(0.02)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
    await producer
    assert answers == [Admission.ADDED] * 300
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert stats.accepted == stats.ready == stats.seen
    if fsync == "always":
        assert stats.accepted == 300
    # With everysec the server holds back what it writes while the disk is busy with the second before: that much may be
    # lost, queue and filter alike, so it can be enqueued again.
    await frontier.enqueue([f"https://{host}.example/{number}" for host in "ab" for number in range(150)])
    assert (await frontier.admin.stats()).ready == 300


@pytest.mark.parametrize("seed", range(4))
async def test_what_a_power_cut_took_can_be_enqueued_again(own_server, subject, seed):
    """The end of the log is cut off, anywhere: queue and filter agree on what is left, and no token comes twice."""
    dice = random.Random(seed)
    server = own_server(appendonly="yes", appendfsync="everysec")
    frontier = await subject(url=server.url, politeness=AT_ONCE, shards=2, lease=0.5)
    await frontier.enqueue(URLS[:20])
    held = await frontier.claim(8)
    await frontier.complete(held[0], URLS[20:30])
    await frontier.retry(held[1], reason="an error")
    await frontier.bury(held[2], "no use")
    await frontier.enqueue(URLS[30:])
    flush(server)
    server.kill()
    log = next((server.folder / "appendonlydir").glob("*.incr.aof"))
    with log.open("r+b") as file:
        file.truncate(int(log.stat().st_size * dice.uniform(0.4, 1)))
    server.start()
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert stats.accepted == stats.seen
    await frontier.enqueue(URLS)
    tokens = set()
    for lease in held[3:]:
        try:
            await frontier.complete(lease)
            tokens.add((lease.shard, lease.token))
        except LeaseLost:
            pass
    await frontier.admin.revive()
    while not await frontier.finished():  # leases that were lost with the end of the log expire first
        for lease in await frontier.claim(50, wait=1, lease=30):
            assert (lease.shard, lease.token) not in tokens
            tokens.add((lease.shard, lease.token))
            await frontier.complete(lease)
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert stats.done == stats.accepted == len(URLS)


async def test_forgotten_scripts_are_sent_again(own_server, subject):
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE)
    stop = threading.Event()

    def flush():
        with server.client() as client:
            while not stop.is_set():
                client.script_flush()

    storm = threading.Thread(target=flush)
    storm.start()
    try:
        for number in range(40):
            assert await frontier.enqueue([f"https://a.example/{number}"]) == [Admission.ADDED]
            [lease] = await frontier.claim(1)
            await frontier.complete(lease, [f"https://b.example/{number}"])
        assert (await frontier.admin.stats()).conserved
    finally:
        stop.set()
        storm.join()
    assert len(await crawl_all(frontier)) == 40


async def until_it_listens(server, crawl, channels=1):
    """A claim that waits has subscribed."""
    with server.client() as client:
        deadline = time.monotonic() + 100
        while len(client.pubsub_channels(f"*{crawl}*")) < channels:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("by_bell")
@pytest.mark.parametrize("shards", [1, 4])
async def test_a_claim_that_waits_over_a_restart_hears_the_bell_again(own_server, subject, crawl, shards):
    server = own_server(appendonly="yes", appendfsync="always")
    frontier = await subject(url=server.url, politeness=AT_ONCE, shards=shards)
    producer = await subject(url=server.url)
    waiting = asyncio.create_task(frontier.claim(1, wait=60))
    await until_it_listens(server, crawl, shards)
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    await until_it_listens(server, crawl, shards)
    await producer.enqueue("https://a.example/")
    [lease] = await waiting
    await frontier.complete(lease)


@pytest.mark.usefixtures("by_bell")
async def test_what_was_enqueued_while_the_bell_was_cut_off_is_found_at_once(proxy, subject, valkey, crawl):
    frontier = await subject(url=proxy.url, politeness=AT_ONCE)
    producer = await subject()
    waiting = asyncio.create_task(frontier.claim(1, wait=60))
    await until_it_listens(valkey, crawl)
    proxy.swallow()
    proxy.hang_up()
    await producer.enqueue("https://a.example/")
    proxy.swallow(swallow=False)
    [lease] = await waiting
    await frontier.complete(lease)
