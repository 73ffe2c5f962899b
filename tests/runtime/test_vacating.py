"""Places of downloaded pages, with a real frontier."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Frontier, Politeness
from silkline.runtime import leases
from silkline.runtime.leases import Vacater


@pytest.fixture
async def frontier(valkey, crawl):
    """One place a host: a second page comes when the first is settled or vacated."""
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0)) as opened:
        await opened.enqueue(["https://e.example/1", "https://e.example/2"])
        yield opened


@pytest.mark.parametrize("linger", [0.0, leases.LINGER])
async def test_the_place_of_a_page_that_is_not_settled_soon_is_vacated_when_it_is_wanted(frontier, linger):
    wanted, vacated = [], asyncio.Event()
    vacater = Vacater(lambda: bool(wanted), linger=lambda: linger, vacated=vacated.set)
    running = asyncio.create_task(vacater.run(frontier))
    [first] = await frontier.claim(2)
    vacater.downloaded(first)
    await asyncio.sleep(4 * leases.LINGER)
    assert not vacated.is_set()
    assert not await frontier.claim(1)
    wanted.append(True)
    async with asyncio.timeout(100):
        await vacated.wait()
    assert len(await frontier.claim(1)) == 1
    running.cancel()


async def test_the_place_of_a_page_that_is_settled_is_not_vacated(frontier):
    vacated = asyncio.Event()
    vacater = Vacater(lambda: True, vacated=vacated.set)
    running = asyncio.create_task(vacater.run(frontier))
    [first] = await frontier.claim(2)
    vacater.downloaded(first)
    vacater.drop([first])
    await asyncio.sleep(4 * leases.LINGER)
    assert not vacated.is_set()
    running.cancel()
