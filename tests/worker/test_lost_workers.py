"""Workers that die, and connections that are lost: only the page that is to blame is buried."""

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack

import pytest

from silkline import Frontier, Worker
from silkline.testing import Shop, SiteProcess
from silkline.worker.options import WorkerOptions
from tests.chaos.proxy import Proxy
from tests.worker.conftest import ListSink
from tests.worker.test_fleet_of_processes import prepare, stats_of

DEADLY = """
import os, signal, sys
from tests.worker import child
from silkline.worker.crawl.handlers import Handlers
from silkline.worker.options import WorkerOptions
from silkline.runtime.event_loop import run_async
from silkline.worker.process.process import work

redis, name, log, deed = sys.argv[1:]
crawl = child.shop_crawl(name, 0, 8)
crawl.handlers = Handlers()

@crawl.handler
async def parse(page):
    if page.url.endswith("/product/3"):
        exec(deed)
    yield page.follow(page.css("a[href]"))
    with open(log, "a") as lines:
        lines.write(page.url + "\\n")

run_async(work(crawl, redis, options=WorkerOptions(concurrency=16, lease=1.0)))
"""


async def work_until_it_ends_well(arguments, most=12):
    """Start a worker again and again, as a supervisor would; returns how often it died."""
    for deaths in range(most):
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", DEADLY, *arguments], check=False, timeout=120
        )
        if done.returncode == 0:
            return deaths
    raise AssertionError("it never ended well")


@pytest.mark.parametrize(
    "deed",
    [
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", id="killed"),
        pytest.param("os.abort()", id="aborted", marks=pytest.mark.long),
    ],
)
async def test_a_page_that_kills_its_worker_takes_no_other_page_with_it(valkey, crawl, tmp_path, deed):
    shop, log = Shop(pages=62, trouble=False), tmp_path / "pages"
    with SiteProcess(shop, latency=0.02) as site:
        await prepare(valkey.url, crawl, site, 0, 16)
        deaths = await work_until_it_ends_well([valkey.url, crawl, str(log), deed])
    stats, dead = await stats_of(valkey.url, crawl)
    assert [letter.url.rpartition("/product/")[2] for letter in dead] == ["3"]
    assert (dead[0].reason, dead[0].crashes) == ("crashed", 3)
    assert (stats.done, deaths) == (61, 4)
    assert len(set(log.read_text().splitlines())) == 61


async def test_replies_that_are_lost_for_several_leases_bury_nobody(valkey, new_crawl, serve, monkeypatch):
    """The claims arrive, so their leases expire one after the other, and no worker ever hears of them."""
    monkeypatch.setattr(
        "silkline.frontier.transport.connection.RETRY_SECONDS", 0.05
    )  # so that many claims are lost within a few seconds
    site = await serve({f"/{number}": "page" for number in range(60)})
    crawl = new_crawl([site.at(f"/{number}") for number in range(60)])
    crawl.handler(lambda page: {"url": page.url}, name="parse")
    options, sink = WorkerOptions(concurrency=16, lease=1.0), ListSink()
    async with AsyncExitStack() as stack:
        frontier = await stack.enter_async_context(await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments))
        proxy = stack.enter_context(Proxy(valkey.socket))
        await frontier.enqueue(await crawl.starts())
        behind = [await stack.enter_async_context(await Frontier.open(proxy.url, crawl=crawl.name)) for _ in range(4)]
        proxy.cut_replies(10**6)
        workers = [asyncio.create_task(Worker(crawl, one, sinks=[sink], options=options).run()) for one in behind]
        await asyncio.sleep(7)  # seven leases, one after the other
        while (await frontier.admin.stats()).rescued <= 16:  # noqa: ASYNC110 - a count of the server
            await asyncio.sleep(0.1)
        proxy.cut_replies(0)
        await asyncio.gather(*workers)
        stats = await frontier.admin.stats()
    assert (stats.dead, stats.done) == (0, 60)
    assert len({item["url"] for item in sink.items}) == 60


async def test_a_page_is_not_buried_for_connections_that_break_while_it_is_tried(valkey, new_crawl, serve):
    """It was struck twice, and the lease of its third try expires; but its worker lives, and tells so."""
    site, trying, go_on = await serve({"/slow": "page"}), asyncio.Event(), asyncio.Event()
    crawl = new_crawl(site.at("/slow"))

    @crawl.handler
    async def parse(page):
        trying.set()
        await go_on.wait()
        yield {"url": page.url}

    async with AsyncExitStack() as stack:
        frontier = await stack.enter_async_context(await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments))
        proxy = stack.enter_context(Proxy(valkey.socket))
        await frontier.enqueue(await crawl.starts())
        for _ in range(3):
            assert await frontier.claim(1, wait=20, lease=0.001)
        behind = await stack.enter_async_context(await Frontier.open(proxy.url, crawl=crawl.name))
        worker = asyncio.create_task(Worker(crawl, behind, options=WorkerOptions(concurrency=4, lease=1.0)).run())
        await trying.wait()
        proxy.swallow()
        async with asyncio.timeout(100):
            while not (await frontier.admin.stats()).dead:
                await frontier.claim(1)
                await asyncio.sleep(0.1)
        proxy.swallow(False)
        proxy.hang_up()
        go_on.set()
        await worker
        stats = await frontier.admin.stats()
    assert (stats.done, stats.dead) == (1, 0)


async def test_a_strike_is_withdrawn_though_another_worker_has_the_page_by_now(valkey, new_crawl, serve):
    """The connection of a worker breaks while it tries the page. When it is back, it finds the lease lost and reports it."""
    site, tries = await serve({"/slow": "page"}), asyncio.Queue()
    crawl, options, go_on = new_crawl(site.at("/slow")), WorkerOptions(concurrency=4, lease=1.0), asyncio.Event()

    @crawl.handler
    async def parse(page):
        tries.put_nowait(page.url)
        await go_on.wait()
        yield {"url": page.url}

    async with AsyncExitStack() as stack:
        frontier = await stack.enter_async_context(await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments))
        proxy = stack.enter_context(Proxy(valkey.socket))
        await frontier.enqueue(await crawl.starts())
        assert await frontier.claim(1, lease=0.001)  # which makes it a suspect
        behind = await stack.enter_async_context(await Frontier.open(proxy.url, crawl=crawl.name))
        first = asyncio.create_task(Worker(crawl, behind, options=options).run())
        async with asyncio.timeout(100):
            url = await tries.get()
            proxy.swallow()
            second = asyncio.create_task(Worker(crawl, frontier, options=options).run())
            await tries.get()
            assert (await frontier.admin.explain(url)).lease.crashes == 1
            proxy.swallow(False)
            proxy.hang_up()
            while (await frontier.admin.explain(url)).lease.crashes:  # noqa: ASYNC110 - the server tells when it happens
                await asyncio.sleep(0.05)
            go_on.set()
            await asyncio.gather(first, second)
        stats = await frontier.admin.stats()
    assert (stats.done, stats.dead) == (1, 0)
