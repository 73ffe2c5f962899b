"""Ticks of recurring tasks: one per time and schedule."""

from __future__ import annotations

import pytest

from silkline import Request
from silkline.errors import InvalidUrl
from silkline.frontier.verbs.enqueue import Admission

START = 1_800_000_000


def tick(minute):
    return Request(f"https://report/={minute}", not_before=START + minute * 60, handler="report", dont_filter=True)


async def test_a_tick_is_enqueued_once(open_bare, clock):
    frontier = await open_bare()
    assert await frontier.internal.tick(Request("https://report/"), "hourly") == (Admission.SEEN, 0, START)
    assert await frontier.internal.tick(tick(1), "hourly") == (Admission.ADDED, START + 60, START)
    assert await frontier.internal.tick(tick(1), "hourly") == (Admission.SEEN, START + 60, START)
    assert await frontier.claim() == []
    clock.advance(60)
    (lease,) = await frontier.claim(9)
    assert (lease.host, lease.request.handler) == ("report", "report")
    await frontier.complete(lease)
    assert await frontier.internal.tick(tick(0), "hourly") == (Admission.SEEN, START + 60, START + 60)
    assert await frontier.internal.tick(tick(0), "daily") == (Admission.ADDED, START, START + 60)
    assert await frontier.internal.tick(tick(1), "daily") == (Admission.SEEN, START + 60, START + 60)
    clock.advance(60)
    assert [lease.url for lease in await frontier.claim(9)] == ["https://report/=0"]


async def test_a_tick_finds_no_room_or_is_refused(open_bare):
    frontier = await open_bare(capacity=1)
    await frontier.enqueue("https://a.example/")
    assert (await frontier.internal.tick(tick(1), "hourly")).admission is Admission.FULL
    await frontier.admin.cancel()
    assert await frontier.internal.tick(tick(1), "hourly") == (Admission.REFUSED, 0, START)


async def test_a_wrong_tick_is_an_error(open_bare):
    with pytest.raises(InvalidUrl):
        await (await open_bare()).internal.tick(Request("report"), "hourly")
