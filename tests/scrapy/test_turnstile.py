"""Callbacks begin one by one, with turns of the loop in between."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

pytest.importorskip("scrapy")

from silkline.scrapy.turnstile import TURNS, Turnstile


async def enter_all(turnstile, count):
    """The turn of the loop in which each of so many got through, in their order."""
    turn, entered = 0, {}

    async def enter(number):
        await turnstile.enter()
        entered[number] = turn

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(enter(number))
        while len(entered) < count:
            await asyncio.sleep(0)
            turn += 1
    return entered


async def enters_at_once(turnstile):
    entering = asyncio.create_task(turnstile.enter())
    await asyncio.sleep(0)
    return entering.done()


async def test_who_comes_alone_goes_right_through():
    assert await enters_at_once(Turnstile())


async def test_who_comes_together_gets_through_one_by_one_in_their_order():
    entered = await enter_all(Turnstile(), 5)
    assert list(entered) == [0, 1, 2, 3, 4]
    turns = list(entered.values())
    assert all(after - before > TURNS for before, after in pairwise(turns))


async def test_it_opens_again_when_nobody_waits():
    turnstile = Turnstile()
    await enter_all(turnstile, 3)
    for _ in range(TURNS + 2):
        await asyncio.sleep(0)
    assert await enters_at_once(turnstile)


async def test_who_gives_up_waiting_does_not_keep_the_others():
    turnstile = Turnstile()
    await turnstile.enter()
    impatient, patient = asyncio.create_task(turnstile.enter()), asyncio.create_task(turnstile.enter())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait_for(patient, 5)
