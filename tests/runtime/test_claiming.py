"""Claims that end early, and suspects."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Frontier, Politeness
from silkline.core.lease import Leases
from silkline.runtime.leases import Claimer, Suspects


@pytest.fixture
async def frontier(valkey, crawl):
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0, concurrency=9)) as opened:
        yield opened


async def test_leases_that_arrive_when_their_claimer_is_cancelled_are_not_lost(frontier):
    await frontier.enqueue([f"https://e.example/{number}" for number in range(5)])
    unstarted = []
    claimer = Claimer(unstarted.extend)

    async def claim_and_cancel():
        leases = await frontier.claim(5)
        asyncio.get_running_loop().call_soon(claiming.cancel)  # before the claimer has them
        return leases

    claiming = asyncio.create_task(claimer.claim(claim_and_cancel))
    with pytest.raises(asyncio.CancelledError):
        await claiming
    assert len(unstarted) == 5


async def test_an_interrupted_claim_returns_nothing_and_takes_nothing(frontier):
    claimer, begun = Claimer(pytest.fail), asyncio.Event()

    async def claim():
        begun.set()
        return await frontier.claim(5, wait=100)

    claiming = asyncio.create_task(claimer.claim(claim))
    await begun.wait()
    claimer.interrupt()
    assert await claiming == Leases()
    await frontier.enqueue("https://e.example/")
    assert len(await claimer.claim(lambda: frontier.claim(5))) == 1
    claimer.interrupt()  # there is no claim to end


async def test_a_process_holds_one_suspect_at_a_time_and_one_with_a_strike_alone(frontier):
    await frontier.enqueue("https://e.example/")
    suspects = Suspects()
    assert (suspects.wanted(busy=True), suspects.wanted(busy=False)) == ("beside", "alone")
    await frontier.claim(1, lease=0.001)
    for strikes in (0, 1):
        leases = await frontier.claim(1, wait=50, lease=0.001)
        assert [(lease.suspect, lease.crashes) for lease in leases] == [(True, strikes)]
        suspects.add(leases)
        assert (suspects.wanted(busy=False), suspects.forbid_claims(busy=False)) == ("none", bool(strikes))
        assert suspects.drop(leases)
        assert not suspects.drop(leases)


def test_a_process_that_must_end_its_leases_first_claims_nothing_meanwhile():
    suspects = Suspects()
    suspects.add(Leases([], isolate=True))
    assert suspects.forbid_claims(busy=True)
    assert not suspects.forbid_claims(busy=False)
    suspects.add(Leases())
    assert not suspects.forbid_claims(busy=True)
