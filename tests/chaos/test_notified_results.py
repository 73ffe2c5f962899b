"""Callers wait for results: the server notifies them, and they look rarely."""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from silkline import Frontier, Politeness, SyncFrontier
from silkline.frontier.verbs import results

AT_ONCE = Politeness(delay=0, concurrency=1000)
CALLS = 100


@pytest.fixture
def no_looks(monkeypatch):
    """No caller may look for a result without a notification: a notification that is missed is a wait without end."""
    for name in ("FIRST_CHECK", "LONGEST_CHECK", "FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(results, name, math.inf)


async def complete_all(frontier, calls):
    """What a worker does; the results are the URLs."""
    while calls:
        for lease in await frontier.claim(10, wait=10):
            calls -= 1
            await frontier.complete(lease, result=lease.url)


@pytest.mark.usefixtures("no_looks")
@pytest.mark.parametrize("shards", [1, 4])
async def test_many_callers_in_a_process_are_notified(valkey, crawl, shards):
    async with (
        await Frontier.open(valkey.url, crawl=crawl, politeness=AT_ONCE, shards=shards) as worker,
        await Frontier.open(valkey.url, crawl=crawl) as caller,
    ):
        working = asyncio.create_task(complete_all(worker, CALLS))

        async def call(number):
            url = f"https://a.example/{number}"
            await caller.enqueue(url)
            return (await caller.result(url, wait=60)).value

        async with asyncio.timeout(50):
            found = await asyncio.gather(*map(call, range(CALLS)))
            await working
        assert found == [f"https://a.example/{number}" for number in range(CALLS)]


@pytest.mark.usefixtures("no_looks")
def test_threads_that_share_a_frontier_are_notified(valkey, crawl):
    with (
        SyncFrontier.open(valkey.url, crawl=crawl, politeness=AT_ONCE) as worker,
        SyncFrontier.open(valkey.url, crawl=crawl) as caller,
        ThreadPoolExecutor(8) as threads,
    ):

        def work():
            for _ in range(CALLS):
                [lease] = worker.claim(1, wait=20)
                worker.complete(lease, result=lease.url)

        def call(number):
            url = f"https://a.example/{number}"
            caller.enqueue(url)
            return caller.result(url, wait=60).value

        working = threading.Thread(target=work)
        working.start()
        assert list(threads.map(call, range(CALLS))) == [f"https://a.example/{number}" for number in range(CALLS)]
        working.join()


@pytest.mark.usefixtures("no_looks")
async def test_a_caller_that_is_cancelled_leaves_the_reading_to_another(valkey, crawl):
    async with (
        await Frontier.open(valkey.url, crawl=crawl, politeness=AT_ONCE) as worker,
        await Frontier.open(valkey.url, crawl=crawl) as caller,
    ):
        await caller.enqueue(["https://a.example/1", "https://a.example/2"])
        reading = asyncio.create_task(caller.result("https://a.example/1", wait=60))
        while caller._results._pubsub is None:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        other = asyncio.create_task(caller.result("https://a.example/2", wait=60))
        await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.wait([reading])
        for lease in await worker.claim(2):
            await worker.complete(lease, result=lease.url)
        async with asyncio.timeout(30):
            assert (await other).value == "https://a.example/2"


async def test_without_its_subscription_a_caller_looks_for_its_result(own_server, crawl):
    server = own_server()
    async with (
        await Frontier.open(server.url, crawl=crawl, politeness=AT_ONCE) as worker,
        await Frontier.open(server.url, crawl=crawl) as caller,
    ):
        await caller.enqueue("https://a.example/1")
        waiting = asyncio.create_task(caller.result("https://a.example/1", wait=60))
        with server.client() as client:
            while not client.client_list(_type="pubsub"):  # noqa: ASYNC110 - a list of the server
                await asyncio.sleep(0.01)
            client.client_kill_filter(_type="pubsub")
        [lease] = await worker.claim(1)
        await worker.complete(lease, result=1)
        async with asyncio.timeout(30):
            assert (await waiting).value == 1
