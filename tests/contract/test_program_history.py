"""A program that claims and settles without a worker has a history, too."""

from __future__ import annotations

import pytest

from silkline import Complete, Request
from silkline.frontier import session
from silkline.frontier.verbs.history import WAITS, Counts
from tests.contract.frontiers import page


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Each claim reports what was done before."""
    monkeypatch.setattr(session, "REPORT_EVERY", 0.0)


async def total(frontier):
    return (await frontier.admin.status()).activity.total


async def test_what_a_program_does_is_in_the_history(frontier, clock):
    await frontier.enqueue([page(number) for number in range(5)])
    clock.advance(20)
    one, two, three, four = await frontier.claim(4)
    await frontier.settle([(one, Complete()), (two, Complete())])
    await frontier.bury(three, "gone")
    await frontier.retry(four, after=60, reason="slow")
    await frontier.claim()
    [*_, point] = await frontier.admin.history(since=10)
    assert (point.pages, point.ended, point.buried, point.retried, point.lost) == (2, 3, 1, 1, 0)
    assert (point.levels.done, point.levels.dead, point.levels.ready, point.levels.delayed) == (2, 1, 1, 1)
    assert (point.waited, point.waited_30s, point.waited_ms) == (4, 4, 80_000)
    await frontier.claim()
    counts = await total(frontier)
    assert (counts.pages, counts.ended, counts.waited) == (2, 3, 5), "something was counted twice"


async def test_what_was_done_last_is_reported_at_the_end(open_crawl, clock):
    frontier = await open_crawl()
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    await frontier.close()
    other = await open_crawl()
    assert (await total(other)).pages == 1


async def test_a_lost_lease_counts_as_lost(frontier, clock):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    clock.advance(60)
    [again] = await frontier.claim()
    await frontier.settle([(lease, Complete())])
    await frontier.complete(again)
    await frontier.claim()
    counts = await total(frontier)
    assert (counts.pages, counts.lost) == (1, 1)


async def test_a_worker_reports_itself_and_nothing_is_counted_twice(frontier, clock):
    await frontier.internal.join("worker")
    await frontier.enqueue(page(1))
    clock.advance(3)
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    await frontier.claim()
    assert await total(frontier) == Counts()
    assert (frontier.internal.waits.waited, frontier.internal.waits.waited_5s) == (1, 1)


@pytest.mark.parametrize(("seconds", "name"), [(0, "waited_1s"), (1, "waited_1s"), (2, "waited_5s"), (86_400, "waited_1d"), (86_401, "waited_longer")])  # fmt: skip
async def test_a_wait_is_counted_once(frontier, clock, seconds, name):
    await frontier.enqueue(Request("https://a.example/x", meta={"a": 1}))
    clock.advance(seconds)
    [lease] = await frontier.claim()
    await frontier.retry(lease, after=5)
    clock.advance(5)
    [lease] = await frontier.claim()
    await frontier.retry(lease, reason="slow")
    await frontier.claim()
    waits = frontier.internal.waits
    assert [other for other in WAITS if getattr(waits, other)] == [name]
    assert (waits.waited, waits.waited_ms) == (1, seconds * 1000)
