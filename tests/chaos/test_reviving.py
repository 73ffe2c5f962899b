"""Letters that die again while others are still being revived."""

from __future__ import annotations

import asyncio

from silkline import Bury, Frontier, Politeness

LETTERS = 12_000


async def bury_all(frontier):
    leases = await frontier.claim(1000)
    await frontier.settle([(lease, Bury("it fails again")) for lease in leases])
    return bool(leases)


async def test_each_letter_is_revived_once_by_one_call(valkey, crawl):
    at_once = Politeness(delay=0, concurrency=1000)
    async with (
        await Frontier.open(valkey.url, crawl=crawl, politeness=at_once) as operator,
        await Frontier.open(valkey.url, crawl=crawl) as worker,
    ):
        await operator.enqueue([f"https://h{number % 7}.example/{number}" for number in range(LETTERS)])
        while await bury_all(worker):
            pass
        reviving = asyncio.create_task(operator.admin.revive())
        while not reviving.done():
            await bury_all(worker)
        assert await reviving == LETTERS
