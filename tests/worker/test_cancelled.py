"""A worker's task is cancelled, as a program does that runs one beside other things: what it held is free at once."""

import asyncio
import gc
import random
from contextlib import suppress

import pytest

from silkline import Frontier, Worker
from silkline.worker.options import WorkerOptions
from tests.worker.conftest import OPTIONS, ListSink, Run, until


@pytest.fixture(autouse=True)
def nothing_of_others(caplog):
    """What other tests left does not complain in ours."""
    gc.collect()
    caplog.clear()


async def cancelled(worker, when):
    """Run it, and cancel it when that holds."""
    task = asyncio.create_task(worker.run())
    await until(lambda: task.done() or when())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def nothing(page):
    yield from ()


def complaints(caplog):
    gc.collect()
    return [record.message for record in caplog.records if record.name == "asyncio"]


async def test_pages_in_progress_are_given_back_at_once_and_those_that_ended_are_stored(
    serve, valkey, new_crawl, caplog
):
    site = await serve({"/*": "x"})
    held = asyncio.Event()
    crawl = new_crawl([site.at(f"/{kind}{n}") for n in range(4) for kind in ("quick", "slow")])

    @crawl.handler
    async def parse(page):
        if "slow" in page.url:
            await held.wait()
        yield {"url": page.url}

    sink = ListSink()
    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        worker = Worker(crawl, frontier, sinks=[sink], options=OPTIONS)
        await cancelled(worker, lambda: len(sink.items) == 4 and worker.in_flight == 4)
        stats = await frontier.admin.stats()
        assert (stats.done, stats.pending, stats.leased) == (4, 4, 0)
        assert await frontier.admin.workers() == []
    assert complaints(caplog) == []

    held.set()
    rest = await Run(crawl, valkey.url).go()
    assert {item["url"] for item in sink.items + rest.items} == {request.url for request in await crawl.starts()}
    assert rest.stats.done == 8
    assert rest.stats.rescued == 0


async def test_nothing_is_claimed_any_more_once_it_is_cancelled(valkey, new_crawl):
    crawl = new_crawl()
    crawl.handler(nothing)
    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        worker = Worker(crawl, frontier, options=OPTIONS, forever=True)
        task = asyncio.create_task(worker.run())
        while not await frontier.admin.workers():  # noqa: ASYNC110 - it takes its place, and by then waits for a page
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)  # the longer nothing came, the longer it waits at a time
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await frontier.enqueue("http://a.example/")
        await asyncio.sleep(1)  # a claim that went on would have got it
        stats = await frontier.admin.stats()
        assert (stats.pending, stats.leased) == (1, 0)


async def test_at_whatever_moment_nothing_stays_held_and_nothing_is_lost(serve, valkey, new_crawl):
    site = await serve({"/*": "x"})
    crawl, sink = new_crawl([site.at(f"/{n}") for n in range(400)]), ListSink()

    @crawl.handler
    async def parse(page):
        yield {"url": page.url}

    dice = random.Random(7)
    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        for _ in range(30):
            task = asyncio.create_task(Worker(crawl, frontier, sinks=[sink], options=OPTIONS).run())
            await asyncio.sleep(dice.uniform(0, 0.04))
            for _ in range(dice.randrange(10)):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            stats = await frontier.admin.stats()
            assert stats.leased == 0
            assert stats.conserved
    rest = await Run(crawl, valkey.url).go()
    assert rest.stats.done == 400
    assert rest.stats.rescued == 0
    assert len({item["url"] for item in sink.items + rest.items}) == 400


async def test_also_in_the_moment_in_which_a_claim_brings_pages(valkey, new_crawl, monkeypatch):
    crawl = new_crawl([f"http://127.0.0.1:1/{n}" for n in range(5)])
    crawl.handler(nothing)
    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        claim = frontier.claim

        async def and_cancel(*args, **options):
            leases = await claim(*args, **options)
            asyncio.get_running_loop().call_soon(task.cancel)  # before the worker knows of them
            return leases

        monkeypatch.setattr(frontier, "claim", and_cancel)
        worker = Worker(crawl, frontier, options=OPTIONS)
        task = asyncio.create_task(worker.run())
        with pytest.raises(asyncio.CancelledError):
            await task
        stats = await frontier.admin.stats()
        assert (stats.pending, stats.leased) == (5, 0)
        assert worker.counters.retried == 0


async def test_it_ends_and_leaves_no_complaint_also_when_the_server_is_away(serve, own_server, new_crawl, caplog):
    server = own_server()
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at("/0")])
    crawl.handler(nothing)
    async with await Frontier.open(server.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        worker = Worker(crawl, frontier, options=OPTIONS, forever=True)
        task = asyncio.create_task(worker.run())
        await until(lambda: worker.counters.pages == 1 and not worker.in_flight)
        server.kill()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert complaints(caplog) == []


@pytest.mark.parametrize("end", ["cancel", "stop"])
async def test_a_handler_that_will_not_end_holds_up_nobody(serve, valkey, new_crawl, caplog, end):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at("/stubborn")])
    begun, let_go, refusals = asyncio.Event(), asyncio.Event(), []

    @crawl.handler
    async def stubborn(page):
        begun.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                refusals.append(page.url)
        yield {"url": page.url}

    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        worker = Worker(crawl, frontier, options=WorkerOptions(concurrency=4, lease=1.5, drain=0.1))
        task = asyncio.create_task(worker.run())
        await begun.wait()
        worker.stop() if end == "stop" else task.cancel()
        ended, _ = await asyncio.wait([task], timeout=100)
        let_go.set()
        assert ended
        assert task.cancelled() == (end == "cancel")
        assert refusals
        assert "1 pages did not stop after cancellation" in caplog.text
    rest = await Run(crawl, valkey.url).go()
    assert rest.stats.done == 1


async def test_a_cancellation_that_a_library_swallows_is_heeded_at_the_next_round(
    serve, valkey, new_crawl, monkeypatch
):
    """An idle worker asks again and again whether the crawl is finished; Python 3.11 may lose a cancellation there."""
    crawl = new_crawl()
    crawl.handler(nothing)
    asked = asyncio.Event()

    async def swallows(_):
        asked.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return False

    monkeypatch.setattr(Worker, "_finished", swallows)
    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        working = asyncio.create_task(Worker(crawl, frontier).run())
        await asked.wait()
        working.cancel()
        await asyncio.wait([working], timeout=100)
        assert working.cancelled()
