"""A worker among hostile pages: everything ends in a verdict, and the good pages are done."""

from __future__ import annotations

import asyncio
import time

import pytest

from silkline import Fetching, Frontier, Scope
from silkline.testing import Answer, SiteProcess
from silkline.testing.site import redirect
from silkline.testing.site.hostile import hostile_pages, hostile_robots
from silkline.worker.fetch.fetcher import Limits
from silkline.worker.fetch.guard import Guard
from silkline.worker.fetch.wreq_fetcher import WreqFetcher
from tests.worker.conftest import Run, until

LIMITS = Limits(timeout=4.0, connect_timeout=2.0, min_rate_window=1.0, max_body=2**20)


@pytest.fixture(scope="module")
def hostile():
    with SiteProcess(hosts=1) as site:
        yield site


async def test_nothing_that_a_site_does_stops_a_worker(hostile, run, new_crawl):
    """Every hostile page at once, among good ones."""
    paths = [path for path in hostile_pages() if not path.endswith("*") and not path.startswith("/retry-after")]
    starts = [hostile.at(path) for path in paths] + [hostile.at(f"/redirect/{n}") for n in (0, 1, 2)]
    crawl = new_crawl(
        starts, retries=[0.05], fetching=Fetching(allow_private=True, limits=LIMITS), scope=Scope(max_depth=0)
    )

    @crawl.handler
    def parse(page):
        yield {"path": page.url.split("/", 3)[3], "size": len(page.body)}

    done = await run(crawl)
    stats = done.stats
    assert (stats.ready, stats.delayed, stats.leased) == (0, 0, 0)
    assert stats.conserved
    assert all(item["size"] <= LIMITS.max_body for item in done.items)
    kinds = {letter.url.split("/", 3)[3]: letter.reason for letter in done.dead}
    for path in ("giant", "endless", "bomb/gzip", "bomb/br", "bomb/zstd", "bomb/deflate"):
        matching = [reason for found, reason in kinds.items() if found == path]
        assert not matching or "too_large" in matching[0], (path, matching)
    assert any("too_large" in reason for reason in kinds.values())
    assert any("slow" in reason or "timeout" in reason for reason in kinds.values())
    assert any("reset" in reason for reason in kinds.values())
    assert "arrived" not in kinds
    assert {"redirect/0"} <= {item["path"] for item in done.items}


@pytest.mark.parametrize("name", sorted(set(hostile_robots()) - {"broken"}))
async def test_no_robots_txt_stops_a_worker(name, serve, run, new_crawl):
    site = await serve({"/page": "<h1>x</h1>"}, robots=hostile_robots()[name])
    crawl = new_crawl(site.at("/page"), retries=[0.05], fetching=Fetching(allow_private=True, limits=LIMITS))

    @crawl.handler
    def parse(page):
        yield {"n": 1}

    done = await run(crawl)
    assert done.stats.conserved
    assert done.stats.done + done.stats.dead == 1
    assert len(done.items) == done.tally.pages
    pages = [path for path in site.visits.paths if path == "/page"]
    assert len(pages) == len(done.items)


async def test_a_site_whose_robots_txt_is_broken_is_left_alone_for_a_while(serve, run, new_crawl):
    site = await serve({"/page": "x"}, robots=hostile_robots()["broken"])
    crawl = new_crawl(site.at("/page"), retries=[0.05, 0.05])
    crawl.handler(_nothing)
    done = Run(crawl, run.url)
    running = asyncio.create_task(done.go())
    await until(lambda: done.worker and done.worker.tally.retried)
    done.worker.stop()
    await running
    assert site.visits.paths == ["/robots.txt"]
    assert (done.stats.delayed, done.stats.dead) == (1, 0)


async def test_a_redirect_into_a_private_network_is_refused(serve, run, new_crawl):
    """The same guard that lets the first host through stops the second."""
    site = await serve({"//127.0.0.2/secret": "the crown jewels"}, hosts=2)
    site.routes["/start"] = redirect(f"http://{site.hosts[1]}/secret")

    def guarded(fetching):
        def forbid(address):
            return None if str(address) == "127.0.0.1" else "private"

        return WreqFetcher(LIMITS, guard=Guard(forbid=forbid))

    crawl = new_crawl(site.at("/start"), scope=Scope(stay="anywhere"), fetching=Fetching(fetcher=guarded))

    @crawl.handler
    def parse(page):
        yield {"text": page.text}

    done = await run(crawl)
    assert done.items == []
    assert "forbidden_address" in done.dead[0].reason
    assert site.visits.to(site.hosts[1]).paths == []


@pytest.mark.parametrize(
    "wish", ["1e18", "99999999999999999999", "-5", "soon", "Fri, 31 Dec 9999 23:59:59 GMT", "\u0663"]
)
async def test_a_site_cannot_park_us_for_ever(wish, serve, run, new_crawl):
    """What a header says is clamped or ignored, never believed."""
    site = await serve(
        {"/": Answer("busy", status=503, headers={"Retry-After": wish.encode("latin-1", "replace").decode()})}
    )
    crawl = new_crawl(site.url, retries=[0.01])
    crawl.handler(_nothing)
    done = Run(crawl, run.url)
    running = asyncio.create_task(done.go())
    await until(lambda: site.visits.to(path="/"))
    await until(lambda: done.worker.tally.retried or done.worker.tally.buried)
    async with await Frontier.open(run.url, crawl=crawl.name, create=False) as frontier:
        (state,) = await frontier.hosts(site.hosts[0])
    assert (state.blocked_until or 0) - time.time() <= 86_401
    done.worker.stop()
    await running


def _nothing(page):
    return None
