"""A site with endless links among others: the others go on, and nothing is fetched again to no use."""

import asyncio
from collections import Counter

import pytest

from silkline import Frontier, Politeness, Scope, Worker
from silkline.testing import SiteResponse
from tests.worker.conftest import OPTIONS, until

CAPACITY = 3000
LINKS = 400
CHAIN = 40


def endless(visit):
    return SiteResponse("".join(f'<a href="{visit.path}/{number}">' for number in range(LINKS)))


@pytest.mark.parametrize("with_overflow", [True, False])
async def test_a_trap_does_not_keep_another_host_from_its_end(serve, run, new_crawl, tmp_path, with_overflow):
    """Each page of the good host has one link, which must find room: without a share of its own it never did."""
    site = await serve(hosts=2)
    trap, good = (host.split(":")[0] for host in site.hosts)
    site.routes |= {f"//{trap}/t*": endless}
    site.routes |= {f"//{good}/{n}": f'<a href="/{n + 1}">' for n in range(CHAIN)}
    starts = [site.at("/t"), site.at("/0", 1)]
    pace = Politeness(delay=0.02)
    crawl = new_crawl(starts, politeness=pace, capacity=CAPACITY, scope=Scope(max_depth=None))

    @crawl.handler
    def parse(page):
        yield page.follow(page.css("a"))

    overflow = tmp_path / "overflow.db" if with_overflow else None
    async with await Frontier.open(run.url, crawl=crawl.name, overflow=overflow, **crawl.arguments) as frontier:
        await frontier.enqueue(starts)
        worker = Worker(crawl, frontier, options=OPTIONS)
        running = asyncio.create_task(worker.run())
        try:
            await asyncio.wait_for(until(lambda: site.visits.to(site.hosts[1], path=f"/{CHAIN}")), 100)
        finally:
            worker.stop()
            await running
        stats = await frontier.admin.stats()
    assert stats.over_share > 0
    assert not stats.full
    fetched = Counter(visit.path for visit in site.visits.to(site.hosts[0]))
    assert max(fetched.values()) == 1
