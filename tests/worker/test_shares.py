"""What a host costs a worker is known, and none takes more than its share of a busy one."""

from __future__ import annotations

import asyncio
import time

import pytest

from silkline import Frontier, Politeness, Worker
from silkline.worker import throttling
from silkline.worker.options import WorkerOptions
from silkline.worker.throttling import COSTLY, WINDOW, HostShares, Metered


def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_a_coroutine_is_measured_without_what_it_waits_for():
    async def work():
        burn(0.02)
        await asyncio.sleep(0.2)
        burn(0.02)
        return "done"

    metered = Metered(work(), closely=True)
    assert await metered == "done"
    assert 0.04 <= metered.cpu < 0.15


async def test_errors_and_cancellation_pass_through():
    seen = []

    async def fails():
        await asyncio.sleep(0)
        raise ValueError("no")

    async def waits():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(ValueError, match="no"):
        await Metered(fails())

    async def hold():
        await Metered(waits())

    task = asyncio.create_task(hold())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_a_timeout_inside_works():
    async def slow():
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)

    with pytest.raises(TimeoutError):
        await Metered(slow())


def test_only_a_costly_host_of_a_busy_worker_is_over_its_share():
    book = HostShares()
    for _ in range(1_000):
        book.note("many.test", COSTLY / 2, COSTLY / 2)
    assert not book.over("many.test"), "cheap pages, however many"
    assert not book.note("slow.test", 1.0, 1.0)
    assert book.suspects("slow.test"), "it is looked at more closely"
    assert book.note("slow.test", WINDOW, WINDOW)
    assert book.over("slow.test")
    assert not book.over("many.test")
    assert not book.note("slow.test", WINDOW, COSTLY / 2), "it was the machine that was busy"
    assert not book.suspects("slow.test")


def test_a_worker_with_time_to_spare_lets_a_host_have_it():
    book = HostShares()
    book.note("other.test", 0.0, 0.0)
    book.note("slow.test", COSTLY, COSTLY)
    assert book.note("slow.test", 0.8 * WINDOW, 0.8 * WINDOW)
    assert not book.over("slow.test")


async def test_a_host_rests_until_it_has_had_no_more_than_its_share():
    book = HostShares()
    for _ in range(2):
        book.note("slow.test", 2 * WINDOW, 2 * WINDOW)
    assert not book.over("slow.test"), "there is no other host"
    book.note("other.test", 0.0, 0.0)
    assert book.over("slow.test")
    await book.rest("slow.test", lambda: True)
    assert book.over("slow.test"), "a worker that stops does not wait"
    await asyncio.wait_for(book.rest("slow.test", lambda: False), 100)
    assert not book.over("slow.test")


def test_what_is_known_of_hosts_is_bounded():
    book = HostShares()
    for number in range(5_000):
        book.note(f"h{number}.test", 0.0, COSTLY if number % 2 else 0.0)
    assert max(len(book._seen), len(book._suspects)) <= throttling.MOST_HOSTS + 1


@pytest.mark.long  # it compares how fast a machine is at two moments
async def test_a_costly_host_gets_no_more_than_its_share(serve, run, new_crawl, monkeypatch):
    """Its handler takes 30 ms for each page. While it rests, another host has several times as many pages."""
    site = await serve({"/*": "x"}, hosts=2)
    slow, quick = site.hosts

    async def quick_for_each_slow(name):
        site.forget()
        crawl = new_crawl(politeness=Politeness(delay=0, concurrency=4))
        crawl.name += name

        @crawl.handler
        def parse(page):
            if slow in page.url:
                burn(0.03)

        async with await Frontier.open(run.url, crawl=crawl.name, **crawl.arguments) as frontier:
            await frontier.enqueue([f"http://{host}/{number}" for host in site.hosts for number in range(2_000)])
            worker = Worker(crawl, frontier, options=WorkerOptions(concurrency=8, lease=20.0, drain=5.0))
            running = asyncio.create_task(worker.run())
            while len(site.visits.to(slow)) < 40:  # noqa: ASYNC110 - the site has no event for it
                await asyncio.sleep(0.05)
            worker.stop()
            await running
            [state] = await frontier.admin.hosts(slow)
        assert state.answers.cpu_each > 0.02
        return len(site.visits.to(quick)) / len(site.visits.to(slow))

    monkeypatch.setattr(throttling, "WINDOW", 0.3)
    monkeypatch.setattr(throttling, "LOOK", 0.01)
    fair = await quick_for_each_slow("-fair")
    monkeypatch.setattr(throttling, "COSTLY", 1_000.0)
    unfair = await quick_for_each_slow("-unfair")
    assert fair > 1.5 * unfair
