"""Tasks cancelled at any point: no reply reaches the wrong caller, what was claimed for nobody is given back."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from silkline import Admission, Complete, Frontier, Politeness
from silkline.errors import StoreUnavailable
from tests.chaos.subject import crawl_all

AT_ONCE = Politeness(delay=0, concurrency=1000)
ROUNDS = 120


async def cancel_after(task, turns):
    """Let the event loop turn so often, then cancel; answers the result if it was faster."""
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return None


@pytest.fixture(params=[1, 3])
async def frontier(request, valkey, crawl):
    settings = {"politeness": AT_ONCE, "shards": request.param, "lease": 60}
    async with await Frontier.open(valkey.url, crawl=crawl, **settings) as opened:
        yield opened


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_a_cancelled_enqueue_confuses_nobody(frontier, seed):
    dice = random.Random(seed)
    for number in range(ROUNDS):
        urls = [f"https://h{host}.example/{number}" for host in range(5)]
        await cancel_after(asyncio.create_task(frontier.enqueue(urls)), dice.randrange(40))
        others = [frontier.enqueue([f"https://x{i}.example/{number}"] * (i + 1)) for i in range(3)]
        for i, answers in enumerate(await asyncio.gather(*others)):
            assert answers == [Admission.ADDED] + [Admission.SEEN] * i
        assert set(await frontier.enqueue(urls)) <= {Admission.ADDED, Admission.SEEN}
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert stats.accepted == 8 * ROUNDS


@pytest.mark.parametrize("wait", [0, 5])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_what_a_cancelled_claim_got_is_given_back(frontier, seed, wait):
    dice = random.Random(seed)
    urls = [f"https://h{number}.example/" for number in range(30)]
    await frontier.enqueue(urls)
    for _ in range(ROUNDS):
        leases = await cancel_after(asyncio.create_task(frontier.claim(7, wait=wait)), dice.randrange(60))
        stats = await frontier.admin.stats()
        assert stats.conserved
        assert stats.leased == len(leases or ())
        for lease in leases or ():
            assert lease.attempt == 1  # what was given back cost no attempt
            await frontier.release(lease)
    assert (await frontier.admin.stats()).rescued == 0
    assert sorted(await crawl_all(frontier)) == sorted(urls)


async def test_a_claim_that_is_cancelled_twice_gives_back_too(frontier):
    urls = [f"https://h{number}.example/" for number in range(5)]
    await frontier.enqueue(urls)
    for turns in range(0, 40, 2):
        task = asyncio.create_task(frontier.claim(5))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        leases = await cancel_after(task, 0)
        for lease in leases or ():
            await frontier.release(lease)
        async with asyncio.timeout(100):
            while (await frontier.admin.stats()).leased:
                pass
    assert sorted(await crawl_all(frontier)) == urls


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_a_cancelled_settle_is_done_or_not_but_never_half_forgotten(frontier, seed):
    dice = random.Random(seed)
    await frontier.enqueue([f"https://h{number}.example/0" for number in range(4)])
    for number in range(1, ROUNDS):
        leases = await frontier.claim(4)
        assert len(leases) == 4
        verdicts = [(lease, Complete([f"https://{lease.host}/{number}"])) for lease in leases]
        await cancel_after(asyncio.create_task(frontier.settle(verdicts)), dice.randrange(50))
        assert (await frontier.admin.stats()).conserved
        await frontier.settle(verdicts)
        stats = await frontier.admin.stats()
        assert stats.conserved
        assert (stats.leased, stats.ready, stats.done) == (0, 4, 4 * number)


async def test_a_frontier_can_be_left_while_the_server_is_away_and_when_it_comes_back(own_server, crawl, monkeypatch):
    """redis-py swallows a cancellation now and then while it connects; leaving must end all the same."""
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.2)
    dice = random.Random(1)
    server = own_server(appendonly="yes", appendfsync="always")
    for _ in range(15):
        frontier = await Frontier.open(server.url, crawl=crawl, politeness=AT_ONCE)
        await frontier.claim(1, wait=0.01)
        server.kill()
        task = asyncio.create_task(frontier.claim(1, wait=30))
        await asyncio.sleep(dice.uniform(0, 0.1))
        task.cancel()
        with suppress(StoreUnavailable, asyncio.CancelledError):  # whichever was first
            await task
        await asyncio.to_thread(server.start)
        await asyncio.sleep(dice.uniform(0, 0.1))
        await asyncio.wait_for(frontier.close(), 100)


async def test_a_task_that_is_cancelled_during_a_call_ends(valkey, crawl):
    """redis-py 8.1 swallows most cancellations that come while it waits for an answer."""
    async with await Frontier.open(valkey.url, crawl=crawl) as frontier:

        async def look_for_ever():
            while True:
                await frontier.admin.stats()

        for _ in range(100):
            looking = asyncio.create_task(look_for_ever())
            await asyncio.sleep(random.uniform(0, 0.002))
            looking.cancel()
            async with asyncio.timeout(100):
                await asyncio.wait((looking,))
            assert looking.cancelled()


async def test_what_a_cancelled_claim_was_bringing_back_from_the_disk_is_not_left_there(valkey, crawl, tmp_path):
    overflow = tmp_path / "overflow.db"
    settings = {"politeness": AT_ONCE, "capacity": 4, "overflow": overflow, "lease": 60}
    async with await Frontier.open(valkey.url, crawl=crawl, **settings) as frontier:
        await frontier.enqueue("https://a.example/")
        [first] = await frontier.claim()
        links = [f"https://a.example/{number}" for number in range(40)]
        await frontier.complete(first, links)
        claimed = []
        for turns in range(0, 300, 3):
            frontier._next_recall = 0.0  # it looks at its disk at once
            leases = await cancel_after(asyncio.create_task(frontier.claim(4, wait=5)), turns)
            claimed += leases or []
            await frontier.settle([(lease, Complete()) for lease in leases or []])
        async with asyncio.timeout(100):
            while len(claimed) < len(links):
                leases = await frontier.claim(4, wait=1)
                claimed += leases
                await frontier.settle([(lease, Complete()) for lease in leases])
        assert await frontier.finished()
