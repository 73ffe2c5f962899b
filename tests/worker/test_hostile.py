"""A worker among hostile pages: everything ends in a verdict, and the good pages are done."""

from __future__ import annotations

import asyncio
import time

import pytest

from silkline import FetchOptions, Frontier, Politeness, Scope, Worker
from silkline.core.retries import FLOOD_REST
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.runtime.start_windows import MOST_MISSED
from silkline.testing import SiteProcess, SiteResponse
from silkline.testing.site import redirect
from silkline.worker.robots import TOO_COSTLY
from tests.hostile_site.pages import HOSTILE_SITE, hostile_pages, hostile_robots
from tests.worker.conftest import OPTIONS, Run, until

LIMITS = Limits(timeout=4.0, connect_timeout=2.0, min_rate_window=1.0, max_body=2**20)
PARKED = ("/retry-after", "/early-hints", "/busy/early-hints", "/busy/continue")
"""Pages after which their host waits for long."""


@pytest.fixture(scope="module")
def hostile():
    with SiteProcess(HOSTILE_SITE, hosts=1) as site:
        yield site


async def test_nothing_that_a_site_does_stops_a_worker(hostile, run, new_crawl):
    """Every hostile page at once, among good ones."""
    paths = [path for path in hostile_pages() if not path.endswith("*") and not path.startswith(PARKED)]
    starts = [hostile.at(path) for path in paths] + [hostile.at(f"/redirect/{n}") for n in (0, 1, 2)]
    crawl = new_crawl(
        starts, retries=[0.05], fetching=FetchOptions(allow_private=True, limits=LIMITS), scope=Scope(max_depth=0)
    )

    @crawl.handler
    def parse(page):
        yield {"path": page.url.split("/", 3)[3], "size": len(page.body), "text": page.text[:10]}

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


async def test_a_host_that_floods_is_left_alone_for_a_while_and_another_one_continues(hostile, serve, run, new_crawl):
    good = await serve({"/*": "x"})
    floods = [hostile.at(f"/early-hints?{n}") for n in range(3)]
    crawl = new_crawl([*floods, *(good.at(f"/{n}") for n in range(20))], politeness=Politeness(delay=0))

    @crawl.handler
    def parse(page):
        yield {"url": page.url}

    done = Run(crawl, run.url)
    running = asyncio.create_task(done.go())
    await until(lambda: done.worker and done.worker.counters.errors["flood"] and done.worker.counters.retried)
    await until(lambda: len(done.items) == 20)
    async with await Frontier.open(run.url, crawl=crawl.name, create=False) as frontier:
        (state,) = await frontier.admin.hosts(hostile.hosts[0])
    assert (state.blocked_until or 0) - time.time() > FLOOD_REST / 2
    done.worker.stop()
    await running
    assert done.counters.errors["flood"] == 1
    assert (done.stats.done, done.stats.dead) == (20, 0)


@pytest.mark.parametrize("name", sorted(set(hostile_robots()) - {"broken"}))
async def test_no_robots_txt_stops_a_worker(name, serve, run, new_crawl):
    site = await serve({"/page": "<h1>x</h1>"}, robots=hostile_robots()[name])
    fetching = FetchOptions(allow_private=True, limits=LIMITS, max_crawl_delay=1.0)
    crawl = new_crawl(site.at("/page"), retries=[0.05], fetching=fetching)

    @crawl.handler
    def parse(page):
        yield {"n": 1}

    done = await run(crawl)
    assert done.stats.conserved
    assert done.stats.done + done.stats.dead == 1
    assert len(done.items) == done.counters.pages
    pages = [path for path in site.visits.paths if path == "/page"]
    assert len(pages) == len(done.items)


async def test_a_robots_txt_that_is_slow_to_match_ends_its_pages_and_holds_up_no_other(serve, run, new_crawl):
    site = await serve({f"/{n}": "<h1>x</h1>" for n in range(20)}, hosts=2)
    site.routes[f"//{site.hosts[1].split(':')[0]}/robots.txt"] = hostile_robots()["needles"]
    long = site.at("/" + "a" * 1900, 1)
    crawl = new_crawl(
        [long, *(site.at(f"/{n}") for n in range(20))], politeness=Politeness(delay=0.05), retries=[0.05, 0.05]
    )

    @crawl.handler
    def parse(page):
        yield {"n": 1}

    done = await asyncio.wait_for(run(crawl), 100)
    assert len(done.items) == 20
    assert [(letter.url, letter.reason) for letter in done.dead] == [(long, TOO_COSTLY.reason)]
    assert "robots.txt" in TOO_COSTLY.reason
    assert site.visits.to(site.hosts[1]).paths == ["/robots.txt"]


async def test_a_page_that_always_misses_its_window_fails_and_the_crawl_ends(serve, new_crawl, run, caplog):
    """Whatever delays it: here an observer."""
    site = await serve({"/*": "x"})
    prompt = [site.at(f"/prompt/{n}") for n in range(10)]
    crawl = new_crawl([site.at("/late"), *prompt], politeness=Politeness(delay=0.05), retries=[0.05])
    crawl.handler(_nothing)

    async def delay(lease, attempt):
        if lease.url.endswith("/late"):
            await asyncio.sleep(0.05)
        return await attempt()

    async with await Frontier.open(run.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        counters = await asyncio.wait_for(Worker(crawl, frontier, options=OPTIONS, around_attempt=delay).run(), 180)
        [letter] = await frontier.admin.dead()
        assert (await frontier.admin.stats()).done == len(prompt)
    assert letter.url == site.at("/late")
    assert letter.reason.startswith(f"missed {MOST_MISSED} start windows in a row, while other pages")
    assert counters.missed >= 2 * MOST_MISSED
    assert "/late missed" in caplog.text
    assert "/late" not in site.visits.paths


async def test_no_page_is_blamed_for_a_worker_that_is_too_slow_for_all_of_them(serve, new_crawl, run, caplog):
    site = await serve({"/*": "x"}, hosts=2)
    starts = [site.at("/", host) for host in range(2)]
    crawl = new_crawl(starts, politeness=Politeness(delay=0.05), retries=[0.05])
    crawl.handler(_nothing)
    overloaded = True

    async def delay(_lease, attempt):
        if overloaded:
            await asyncio.sleep(0.05)
        return await attempt()

    async with await Frontier.open(run.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        worker = Worker(crawl, frontier, options=OPTIONS, around_attempt=delay)
        running = asyncio.create_task(worker.run())
        await until(lambda: worker.counters.missed > MOST_MISSED * len(starts) or running.done())
        overloaded = False
        await asyncio.wait_for(running, 180)
        stats = await frontier.admin.stats()
    assert (stats.done, stats.dead) == (len(starts), 0)
    assert worker.counters.errors["missed windows"] == worker.counters.retried == 0
    assert "pages cannot start in time" in caplog.text


async def test_a_site_whose_robots_txt_is_broken_is_left_alone_for_a_while(serve, run, new_crawl):
    site = await serve({"/page": "x"}, robots=hostile_robots()["broken"])
    crawl = new_crawl(site.at("/page"), retries=[0.05, 0.05])
    crawl.handler(_nothing)
    done = Run(crawl, run.url)
    running = asyncio.create_task(done.go())
    await until(lambda: done.worker and done.worker.counters.retried)
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

    crawl = new_crawl(site.at("/start"), scope=Scope(stay="anywhere"), fetching=FetchOptions(fetcher=guarded))

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
async def test_a_site_cannot_park_us_forever(wish, serve, run, new_crawl):
    """What a header says is clamped or ignored, never believed."""
    site = await serve(
        {"/": SiteResponse("busy", status=503, headers={"Retry-After": wish.encode("latin-1", "replace").decode()})}
    )
    crawl = new_crawl(site.url, retries=[0.01])
    crawl.handler(_nothing)
    done = Run(crawl, run.url)
    running = asyncio.create_task(done.go())
    await until(lambda: site.visits.to(path="/"))
    await until(lambda: done.worker.counters.retried or done.worker.counters.buried)
    async with await Frontier.open(run.url, crawl=crawl.name, create=False) as frontier:
        (state,) = await frontier.admin.hosts(site.hosts[0])
    assert (state.blocked_until or 0) - time.time() <= 86_401
    done.worker.stop()
    await running


def _nothing(page):
    return None
