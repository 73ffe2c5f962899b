"""The leases that a process holds, and their extension, with a real frontier."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Frontier, Politeness
from silkline.runtime.leases import ExtenderThread, HeldLeases, extend_regularly


async def claimed(frontier, count=3, lease=0.4):
    await frontier.enqueue([f"https://e.example/{number}" for number in range(count)])
    return await frontier.claim(count, lease=lease)


@pytest.fixture
async def frontier(valkey, crawl):
    politeness = Politeness(delay=0, concurrency=9)
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=politeness, lease=0.4) as opened:
        yield opened


async def test_leases_are_extended_while_they_are_held(frontier):
    held, lost = HeldLeases(), []
    leases = await claimed(frontier)
    held.hold(leases)
    extending = asyncio.create_task(extend_regularly(frontier, held, lost.extend, 0.4))
    await asyncio.sleep(1.2)  # three leases
    assert (await frontier.admin.stats()).rescued == 0
    assert not await frontier.claim(3)
    held.drop(leases[:2])
    async with asyncio.timeout(100):
        rescued = [lease.url for lease in await frontier.claim(3, wait=50)]
    extending.cancel()
    assert set(rescued) <= {lease.url for lease in leases[:2]}
    assert lost == []


async def test_leases_are_left_to_expire_while_it_is_not_allowed_to_extend_them(frontier):
    held = HeldLeases()
    held.hold(await claimed(frontier))
    extending = asyncio.create_task(extend_regularly(frontier, held, lambda _: None, 0.4, allowed=lambda: False))
    assert await frontier.claim(3, wait=50)
    extending.cancel()


async def test_leases_that_another_worker_holds_are_reported(frontier):
    held, lost = HeldLeases(), asyncio.Queue()
    first, *_ = await claimed(frontier)
    held.hold([first])
    await frontier.complete(first)
    extending = asyncio.create_task(extend_regularly(frontier, held, lost.put_nowait, 0.4))
    async with asyncio.timeout(100):
        assert await lost.get() == [first]
    extending.cancel()


async def test_leases_are_held_up_to_the_limit_in_the_order_of_their_claims(frontier):
    leases = await claimed(frontier)
    held, short = HeldLeases(limit=600.0), HeldLeases(limit=0.0)
    for one in (held, short):
        one.hold(leases)
    assert (list(held), held.to_extend(), len(held)) == (leases, leases, 3)
    assert (list(short), short.to_extend()) == (leases, [])
    held.drop([leases[1], leases[1]])
    assert (leases[1] in held, list(held)) == (False, [leases[0], leases[2]])


def test_the_thread_ends_with_its_loop():
    """A loop that is closed early leaves no thread that complains."""
    loop = asyncio.new_event_loop()
    extender = ExtenderThread(lambda: pytest.fail("nothing is held"), loop, HeldLeases(), print, 1.5)
    loop.close()
    extender.start()
    extender.join(100)
    assert not extender.is_alive()
