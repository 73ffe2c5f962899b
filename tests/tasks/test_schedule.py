"""Recurring tasks: one call per tick, whoever enqueues it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from silkline import Tasks
from silkline.core.lease import State
from silkline.errors import ConfigError
from silkline.tasks.schedule import REMEMBERED, Ticker, tick
from silkline.testing import MemoryTasks

START = 1_800_000_000


@pytest.fixture
def app(crawl):
    app = Tasks(crawl)

    @app.task(every=60)
    async def report(month: int = 1) -> None: ...

    return app


async def test_many_workers_enqueue_one_call_per_tick(app, open_frontier, clock):
    frontier = await open_frontier()
    tickers = [Ticker(frontier, app.specs, lambda: clock.seconds) for _ in range(3)]
    for _ in range(4):
        assert set(await asyncio.gather(*(ticker.enqueue_next() for ticker in tickers))) == {60.0}
        assert await frontier.claim(9) == []
        clock.advance(60)
        (lease,) = await frontier.claim(9)
        await frontier.complete(lease)
    assert lease.url == f"https://report/=tick-{'20270115T080400Z'}"
    assert (await frontier.admin.stats()).accepted == 4


async def test_a_clock_that_is_set_back_and_forth_repeats_no_tick(app, open_frontier, clock):
    """The clock of a worker is wrong; that of the queue is not."""
    frontier, wrong = await open_frontier(), [0.0]
    ticker = Ticker(frontier, app.specs, lambda: clock.seconds + wrong[0])
    ran = []
    for offset in (0, -3600, 90, -120, 0, 30, -86_000, 0):
        wrong[0] = offset
        await ticker.enqueue_next()
        wrong[0] = 0
        await ticker.enqueue_next()
        for lease in await frontier.claim(9):
            ran.append(lease.url)
            await frontier.complete(lease)
        clock.advance(60)
    assert len(set(ran)) == len(ran) >= 7


async def test_a_tick_that_came_while_no_worker_ran_is_run_once_late(app, open_frontier, clock):
    frontier = await open_frontier()
    await Ticker(frontier, app.specs, lambda: clock.seconds).enqueue_next()
    clock.advance(1000)
    await Ticker(frontier, app.specs, lambda: clock.seconds).enqueue_next()
    (late,) = await frontier.claim(9)
    assert late.request.url.endswith("T080100Z")
    await frontier.complete(late)
    clock.advance(60)
    (lease,) = await frontier.claim(9)
    assert lease.request.url.endswith("T081700Z")


async def test_old_ticks_are_forgotten(app, open_frontier, clock):
    frontier = await open_frontier()
    (spec,) = app.specs
    ticker = Ticker(frontier, app.specs, lambda: clock.seconds)
    await ticker.enqueue_next()
    first = tick(spec, START + 60)
    assert (await frontier.admin.explain(first)).state is State.DELAYED
    clock.advance(REMEMBERED + 60)
    (lease,) = await frontier.claim()
    await frontier.complete(lease)
    await ticker.enqueue_next()
    stats = await frontier.admin.stats()
    assert (stats.accepted, stats.seen) == (2, 1)


@pytest.mark.parametrize("every", [0, 0.5, 1.5, -1, "60", timedelta(milliseconds=1)])
def test_a_wrong_interval_is_refused(every):
    with pytest.raises(ConfigError, match="every must be whole seconds"):
        Tasks("wrong").task(every=every)(asyncio.sleep)


def test_a_recurring_task_needs_no_arguments():
    app = Tasks("wrong")

    @app.task(every=timedelta(hours=1))
    async def report(month: int) -> None: ...

    with pytest.raises(ConfigError, match=r"called without arguments, but report\(\) needs the argument 'month'"):
        app.check()


async def test_workers_call_recurring_tasks(valkey, crawl, work):
    ticks, second = [], asyncio.Event()
    async with Tasks(crawl, valkey.url) as app:

        @app.task(every=1)
        async def beat() -> None:
            ticks.append(1)
            if len(ticks) == 2:
                second.set()

        async with work(app), work(app):
            await asyncio.wait_for(second.wait(), 30)
        stats = await (await app.frontier()).admin.stats()
        assert len(ticks) == stats.done


async def test_recurring_tasks_run_in_memory(app):
    async with MemoryTasks(app) as memory:
        assert await memory.run() == 0
        memory.clock.advance(60)
        assert await memory.run() == 1
        memory.clock.advance(60)
        assert await memory.run() == 1
