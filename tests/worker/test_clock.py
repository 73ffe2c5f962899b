"""The server's clock is set while workers crawl: they go on as if nothing had happened."""

import asyncio
import time

import pytest

from silkline import Frontier, Politeness, Worker
from tests.worker.conftest import OPTIONS, until

DELAY = 0.1
PAGES = 10
MOST = 2.0
"""Seconds for which no page of a host may begin, whatever the step."""
TRIES = 4
"""Runs of which one must stay below. A busy machine adds to a pause; one that the step makes is in every run."""


class SteppingClock:
    """The time of this machine, until it is set."""

    def __init__(self):
        self.by = 0.0

    def __call__(self):
        return round((time.time() + self.by) * 1000)


@pytest.fixture
async def crawl_with_a_step(serve, run, new_crawl):
    """Crawls three hosts, and sets the clock when a third of the pages have begun; returns the gaps between pages of a host."""
    site = await serve({"/*": "x"}, hosts=3)
    starts = [site.at(f"/{page}", host) for host in range(3) for page in range(PAGES)]
    crawl = new_crawl(starts, politeness=Politeness(delay=DELAY))
    crawl.handler(_nothing)

    async def go(by, number):
        clock, before = SteppingClock(), len(site.visits)
        name = f"{crawl.name}-{number}"
        async with await Frontier.open(run.url, crawl=name, clock=clock, **crawl.arguments) as frontier:
            await frontier.enqueue(starts)
            worker = asyncio.create_task(Worker(crawl, frontier, options=OPTIONS).run())
            await until(lambda: len(site.visits) - before > len(starts) / 3)
            clock.by = by
            await asyncio.wait_for(worker, 100)
            stats = await frontier.admin.stats()
        assert (stats.done, stats.dead) == (len(starts), 0)
        visits = site.visits[before:]
        return [visits.gaps(host) for host in site.hosts]

    return go


@pytest.mark.parametrize("by", [-0.5, -5, -3600, 5, 3600])
async def test_no_step_of_the_servers_clock_stops_a_worker(crawl_with_a_step, by):
    pauses = []
    while not pauses or (pauses[-1] >= MOST and len(pauses) < TRIES):
        gaps = await crawl_with_a_step(by, len(pauses))
        for one in gaps:
            too_soon = [gap for gap in one if gap < DELAY / 2]
            assert len(too_soon) <= (1 if by > 0 else 0), "set forward, it looks as if time had passed: once"
        pauses.append(max(gap for one in gaps for gap in one))
    assert pauses[-1] < MOST, pauses


def _nothing(page):
    return None
