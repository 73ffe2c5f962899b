"""Waiting for work: the bell is heard at once, and silence costs next to nothing."""

from __future__ import annotations

import asyncio
import math
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from silkline import Frontier, Politeness, SyncFrontier
from silkline.frontier.transport.notifier import PollSchedule

AT_ONCE = Politeness(delay=0, concurrency=1000)


@pytest.mark.parametrize("shards", [1, 16])
async def test_work_is_announced_by_a_notification(subject, shards, monkeypatch, capsys):
    """No client may look of its own accord here: a ring that is missed is a claim that comes back empty."""
    monkeypatch.setattr("silkline.frontier.transport.notifier.SAFETY_POLL", math.inf)
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


def scripts_run(client):
    return client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]


async def test_a_client_that_waits_is_silent(own_server, subject, capsys):
    """Until every shard has been looked at once, in case a ring was lost."""
    numbers = (1, 16, 64)
    servers = [own_server() for _ in numbers]
    opened = [await subject(url=server.url, shards=shards) for server, shards in zip(servers, numbers, strict=True)]
    clients = [server.client() for server in servers]
    for frontier, client in zip(opened, clients, strict=True):
        await frontier.claim(1, wait=0.01)
        client.config_resetstat()
    began = time.monotonic()
    waiting = [asyncio.create_task(frontier.claim(1, wait=100)) for frontier in opened]
    for client, shards in zip(clients, numbers, strict=True):
        while scripts_run(client) < shards:  # noqa: ASYNC110 - a count of the server
            await asyncio.sleep(0.1)
    for frontier, client, claim, shards in zip(opened, clients, waiting, numbers, strict=True):
        rate = scripts_run(client) / (time.monotonic() - began)
        with capsys.disabled():
            print(f"\n  idle, {shards} shards: {rate:.1f} scripts/s")
        assert rate < 20
        assert not claim.done()
        await frontier.enqueue("https://a.example/")
        assert len(await claim) == 1
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
            await frontier.admin.set_host(f"h{number}.example", block_until=time.time() + 20 - number / 10)
        assert await other.claim(1, wait=max(0.1, 2 - (time.monotonic() - began))) == []
        scripts = scripts_run(client) - 200
    assert scripts / (time.monotonic() - began) < 20


async def test_many_clients_that_wait_share_little_work_with_few_looks(own_server, crawl, capsys):
    """Each enqueue wakes all of them, and one finds the request. Those that find nothing keep their distance."""
    server = own_server()
    clients, requests = 30, 300
    consumers = [await Frontier.open(server.url, crawl=crawl, politeness=AT_ONCE) for _ in range(clients)]
    done = []

    async def consume(frontier):
        while len(done) < requests:
            for lease in await frontier.claim(1, wait=0.5):
                done.append(lease.url)
                await frontier.complete(lease)

    for frontier in consumers:
        await frontier.claim(1, wait=0.01)
    with server.client() as client:
        client.config_resetstat()
        began = time.monotonic()
        async with asyncio.TaskGroup() as working:
            for frontier in consumers:
                working.create_task(consume(frontier))
            for number in range(requests):
                await consumers[0].enqueue(f"https://h{number}.example/")
                await asyncio.sleep(0.002)
        scripts = scripts_run(client)
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\n  {clients} clients: {scripts / requests:.1f} scripts per request in {seconds:.1f} s")
    for frontier in consumers:
        await frontier.close()
    assert len(set(done)) == len(done) == requests
    assert scripts < 4 * requests + 20 * clients * (seconds + 1)


async def test_an_enqueue_is_seen_by_the_very_next_claim(subject):
    """A client that once waited has a bell, which it may not have heard yet."""
    frontier = await subject(politeness=AT_ONCE)
    assert await frontier.claim(1, wait=0.01) == []
    for number in range(50):
        await frontier.enqueue(f"https://h{number}.example/")
        [lease] = await frontier.claim(1)
        await frontier.complete(lease)


async def test_a_client_that_hardly_waits_hears_the_bell(subject, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.notifier.SAFETY_POLL", math.inf)
    frontier, producer = await subject(politeness=AT_ONCE), await subject()
    assert await frontier.claim(1, wait=0.05) == []
    await producer.enqueue("https://late.example/")
    async with asyncio.timeout(60):
        while not await frontier.claim(1, wait=1e-9):  # noqa: ASYNC110 - it is the claim that is tested
            await asyncio.sleep(0)


def test_a_ring_that_is_received_before_an_older_answer_is_not_drowned_by_it():
    """The bell and the answers come over two connections, in any order."""
    schedule = PollSchedule(2)
    schedule.notified(0, 0.0, now=10.5)
    schedule.replied(0, None, asked=10.0, now=11.0)  # this answer is from before the ring
    schedule.replied(1, None, asked=10.0, now=11.0)
    assert schedule.due(11.0) == [0]
    schedule.replied(0, None, asked=11.0, now=11.1)  # this one from after it
    assert schedule.due(11.2) == []
    schedule.notified(0, 2.0, now=12.0)
    schedule.replied(0, 1.0, asked=11.9, now=12.1)
    assert schedule.next_poll == pytest.approx(13.1)


def test_threads_that_share_a_frontier_wait_side_by_side(valkey, crawl, monkeypatch):
    """One of them listens for all: none may look of its own accord, and none is given what another one reads."""
    monkeypatch.setattr("silkline.frontier.transport.notifier.SAFETY_POLL", math.inf)
    with (
        SyncFrontier.open(valkey.url, crawl=crawl, politeness=AT_ONCE) as shared,
        SyncFrontier.open(valkey.url, crawl=crawl) as producer,
        ThreadPoolExecutor(8) as threads,
    ):
        done = []

        def work():
            while len(done) < 300:
                for lease in shared.claim(2, wait=0.2):
                    shared.complete(lease)
                    done.append(lease.url)

        working = [threads.submit(work) for _ in range(8)]
        sent = [f"https://h{number % 5}.example/{number}" for number in range(300)]
        for url in sent:
            producer.enqueue(url)
            time.sleep(0.002)  # so that most of them find all threads waiting
        for one in working:
            one.result(100)
        assert sorted(done) == sorted(sent)


async def until(is_true):
    """Let other tasks run until something is true."""
    async with asyncio.timeout(60):
        while not is_true():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)


def subscribers(client):
    return [one["id"] for one in client.client_list(_type="pubsub")]


@pytest.fixture
async def shared(own_server, crawl, monkeypatch):
    """A frontier whose claims never look of their own accord, and a client of its server."""
    monkeypatch.setattr("silkline.frontier.transport.notifier.SAFETY_POLL", math.inf)
    server = own_server()
    async with await Frontier.open(server.url, crawl=crawl, politeness=AT_ONCE, shards=3) as frontier:
        with server.client() as client:
            yield frontier, client


@pytest.mark.parametrize("end", ["cancelled", "timed out"])
async def test_a_claim_that_stops_waiting_leaves_the_reading_to_another(shared, end):
    frontier, client = shared
    turn = frontier._notifier._turn
    first = asyncio.create_task(frontier.claim(1, wait=60 if end == "cancelled" else 0.5))
    await until(lambda: frontier._schedule._counted > -math.inf)  # it has subscribed
    await until(lambda: turn.taken_by_others)
    others = [asyncio.create_task(frontier.claim(1, wait=60)) for _ in range(3)]
    await until(lambda: turn._changed is not None)  # they wait for the first one
    [subscribed] = subscribers(client)
    if end == "cancelled":
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    else:
        assert await first == []
    await until(lambda: turn.taken_by_others)
    for number in range(3):
        await frontier.enqueue(f"https://h{number}.example/")
    found = await asyncio.gather(*others)
    assert sorted(lease.url for leases in found for lease in leases) == [f"https://h{i}.example/" for i in range(3)]
    assert subscribers(client) == [subscribed]


async def test_claims_that_are_cancelled_at_any_moment_lose_no_notification(shared):
    frontier, client = shared
    dice = random.Random(11)
    waiting = asyncio.create_task(frontier.claim(1, wait=60))
    for number in range(60):
        others = [asyncio.create_task(frontier.claim(1, wait=60, suspects="none")) for _ in range(3)]
        for _ in range(dice.randrange(60)):
            await asyncio.sleep(0)
        url = f"https://h{number}.example/"
        adding = asyncio.create_task(frontier.enqueue(url))
        for one in others:
            for _ in range(dice.randrange(20)):
                await asyncio.sleep(0)
            one.cancel()
        ended = await asyncio.gather(*others, return_exceptions=True)
        await adding
        leases = [lease for leases in ended if not isinstance(leases, BaseException) for lease in leases]
        if not leases:
            leases = await waiting
            waiting = asyncio.create_task(frontier.claim(1, wait=60))
        assert [lease.url for lease in leases] == [url]
        await frontier.complete(leases[0])
    waiting.cancel()
    assert len(subscribers(client)) <= 1


async def test_a_frontier_that_is_closed_subscribes_no_more(shared):
    frontier, client = shared
    waiting = asyncio.create_task(frontier.claim(1, wait=60))
    await until(lambda: frontier._schedule._counted > -math.inf)  # it has subscribed
    await until(lambda: frontier._notifier._turn.taken_by_others)
    assert len(subscribers(client)) == 1
    await frontier.close()
    waiting.cancel()  # it must not be lost in the error of the closed connection: then the claim would wait on
    await asyncio.wait([waiting], timeout=30)
    assert waiting.cancelled()
    await frontier._notifier.listen()
    await until(lambda: not subscribers(client))


INTERRUPTED = """
import math, random, signal, sys, threading, time
from silkline import Frontier, Politeness, SyncFrontier
from silkline.frontier.transport import notifier

notifier.SAFETY_POLL = math.inf

class Interrupted(BaseException):
    pass

def ring(*_):
    raise Interrupted

signal.signal(signal.SIGALRM, ring)
found = []
with SyncFrontier.open(sys.argv[1], crawl=sys.argv[2], politeness=Politeness(delay=0), shards=3) as frontier:
    for number in range(40):
        other = threading.Thread(target=lambda: found.extend(frontier.claim(1, wait=60)))
        if number % 2:
            other.start()  # whoever comes first reads
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.01, 0.1))
            assert frontier.claim(1, wait=2) == []  # not interrupted if the signal came where nothing can be raised
        except Interrupted:
            pass
        if other.ident is None:
            other.start()
        if number % 3:
            while not frontier._notifier._turn.taken_by_others:
                time.sleep(0.001)
        frontier.enqueue(f"https://h{number}.example/")
        other.join(100)
        frontier.complete(found[number])
    print(len({lease.url for lease in found}), frontier.admin.stats().done)
"""


def test_a_thread_that_is_interrupted_leaves_the_reading_to_another(valkey, crawl):
    command = [sys.executable, "-c", INTERRUPTED, valkey.url, crawl]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stdout) == (0, "40 40\n"), ran.stderr
