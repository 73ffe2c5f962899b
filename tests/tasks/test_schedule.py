"""Recurring tasks: one call per tick, whoever enqueues it."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from silkline import Frontier, Tasks
from silkline.errors import ConfigError
from silkline.tasks.schedule import RETRY_AFTER, Ticker
from silkline.testing import MemoryFrontier, MemoryTasks


async def report() -> None: ...


@pytest.fixture
def app(crawl):
    app = Tasks(crawl)

    @app.task(every=60)
    async def report(month: int = 1) -> None: ...

    return app


@pytest.fixture(params=["server", "memory"])
def open_any(request, open_frontier, crawl, clock):
    """Opens a frontier on a server, or one in memory."""

    async def open_(**settings):
        if request.param == "server":
            return await open_frontier(**settings)
        return await MemoryFrontier.open(crawl=crawl, clock=clock, **settings)

    return open_


async def run_due(frontier):
    """Complete the calls that are due and return their paths."""
    leases = await frontier.claim(99)
    for lease in leases:
        await frontier.complete(lease)
    return [lease.url.partition("tick-")[2] for lease in leases]


async def test_many_workers_enqueue_one_call_per_tick(app, open_any, clock):
    frontier = await open_any()
    tickers = [Ticker(frontier, app.specs) for _ in range(3)]
    for _ in range(4):
        assert set(await asyncio.gather(*(ticker.enqueue_next() for ticker in tickers))) == {60.0}
        assert await run_due(frontier) == []
        clock.advance(60)
        (path,) = await run_due(frontier)
    assert path == "20270115T080400Z"
    assert (await frontier.admin.stats()).accepted == 4


async def test_the_clocks_of_workers_do_not_count(valkey, crawl, monkeypatch):
    """One of three workers is an hour behind and one an hour ahead: the server says what time it is."""
    app, right, ran = Tasks(crawl), time.time, []
    app.task(every=1)(report)
    async with await Frontier.open(valkey.url, crawl=crawl) as frontier:
        tickers = {offset: Ticker(frontier, app.specs) for offset in (0, -3600, 3600)}
        began = right()
        while right() < began + 2.2:
            for offset, ticker in tickers.items():
                monkeypatch.setattr(time, "time", lambda offset=offset: right() + offset)
                assert 0 < await ticker.enqueue_next() <= 1
            ran += await run_due(frontier)
    assert len(set(ran)) == len(ran)
    assert len(ran) in (2, 3)


async def test_a_clock_that_is_set_back_and_forth_repeats_no_tick(app, open_any, clock):
    """The clock of the server."""
    frontier = await open_any()
    ticker, ran = Ticker(frontier, app.specs), []
    for seconds in (0, 60, -3600, 90, -120, 3600, 59, -1, 1, -86_000, 86_400, 60, 60):
        clock.advance(seconds)
        ran += await run_due(frontier)
        await ticker.enqueue_next()
    clock.advance(60)
    ran += await run_due(frontier)
    assert len(set(ran)) == len(ran)
    assert ran[0] == "20270115T080100Z"
    assert ran == sorted(ran)
    assert len(ran) >= 5


async def test_a_bloom_filter_skips_no_tick_and_does_not_grow(app, open_any, clock):
    frontier = await open_any(seen="bloom")
    for _ in range(5):
        await Ticker(frontier, app.specs).enqueue_next()
        clock.advance(60)
        assert len(await run_due(frontier)) == 1
    assert (await frontier.admin.stats()).seen == 0


async def test_a_tick_that_came_while_no_worker_ran_is_run_once_late(app, open_any, clock):
    frontier = await open_any()
    await Ticker(frontier, app.specs).enqueue_next()
    clock.advance(1000)
    await Ticker(frontier, app.specs).enqueue_next()
    (late,) = await run_due(frontier)
    assert late.endswith("T080100Z")
    clock.advance(60)
    (path,) = await run_due(frontier)
    assert path.endswith("T081700Z")


async def test_a_changed_schedule_does_not_wait_for_the_tick_of_the_old_one(crawl, open_any, clock):
    """Workers with the old file and with the new one run at the same time."""
    frontier = await open_any()
    tickers = []
    for every in (3600, 60, 60, 1800):
        app = Tasks(crawl)
        app.task(every=every)(report)
        tickers.append(Ticker(frontier, app.specs))
    ran = []
    for _ in range(120):
        for ticker in tickers:
            await ticker.enqueue_next()
        clock.advance(30)
        ran += await run_due(frontier)
    assert len(set(ran)) == len(ran) == 60


async def test_a_full_queue_gets_the_tick_later(app, open_any, clock):
    frontier = await open_any(capacity=1)
    await frontier.enqueue("https://report/1")
    assert await Ticker(frontier, app.specs).enqueue_next() == RETRY_AFTER
    await run_due(frontier)
    assert await Ticker(frontier, app.specs).enqueue_next() == 60


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
