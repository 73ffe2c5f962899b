"""What is claimed for a spider: held by it, so given back when it closes; and suspects one at a time."""

from __future__ import annotations

import asyncio
import time

import pytest

pytest.importorskip("scrapy")

from silkline import Politeness, Release
from silkline.frontier.frontier import Frontier
from silkline.runtime.leases import HeldLeases
from silkline.runtime.settling import Retrier
from silkline.runtime.start_windows import MOST_MISSED
from silkline.scrapy.bridge import prefetch as prefetching
from silkline.scrapy.bridge.prefetch import Prefetch
from silkline.scrapy.convert.settings import PluginOptions


async def test_what_a_claim_brings_in_the_moment_in_which_the_spider_closes_is_held(valkey, crawl, monkeypatch):
    loop, held = asyncio.get_running_loop(), HeldLeases()
    async with await Frontier.open(valkey.url, crawl=crawl) as frontier:
        await frontier.enqueue(f"https://h{number}.example/" for number in range(5))
        claim = frontier.claim

        async def and_close(*args, **options):
            leases = await claim(*args, **options)
            loop.call_soon(task.cancel)  # before `Prefetch` knows of them
            return leases

        monkeypatch.setattr(frontier, "claim", and_close)
        options = PluginOptions(url=valkey.url, crawl=crawl)
        prefetch = Prefetch(loop, loop.call_soon, Retrier(), held, lambda: None, lambda lease, release: None, options)
        task = asyncio.create_task(prefetch.run(frontier))
        with pytest.raises(asyncio.CancelledError):
            await task
        stats = await frontier.admin.stats()
        assert stats.leased == len(held) == 5


async def test_a_claim_that_found_less_than_there_is_room_for_is_not_repeated_at_once(valkey, crawl, monkeypatch):
    """The crawl has no more until this process, or another one, changes something."""
    monkeypatch.setattr(prefetching, "LOOK_EVERY", 3600)
    found: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0)) as frontier:
        claim = frontier.claim

        async def count(*args, **options):
            leases = await claim(*args, **options)
            found.put_nowait(len(leases))
            return leases

        monkeypatch.setattr(frontier, "claim", count)
        options = PluginOptions(url=valkey.url, crawl=crawl)
        prefetch = Prefetch(
            loop, loop.call_soon, Retrier(), HeldLeases(), lambda: None, lambda lease, release: None, options
        )
        await frontier.enqueue(f"https://h{number}.example/" for number in range(5))
        task = asyncio.create_task(prefetch.run(frontier))
        assert [await found.get(), await found.get()] == [5, 0]
        for number in (2, 1):
            await frontier.enqueue(f"https://{number}-{place}.example/" for place in range(number))
            prefetch.look()
            assert await found.get() == number
            for _ in range(5):  # more than a second claim would take
                await frontier.admin.stats()
            assert found.empty()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def taking(valkey, crawl):
    """A `Prefetch` at work on a crawl, and what it holds; `lose` makes suspects of all that waits."""
    frontier = await Frontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0, concurrency=100))
    held, arrived = HeldLeases(), asyncio.Event()
    options = PluginOptions(url=valkey.url, crawl=crawl, politeness=Politeness(delay=0, concurrency=100))
    missed = []
    prefetch = Prefetch(
        asyncio.get_running_loop(),
        asyncio.get_running_loop().call_soon,
        Retrier(),
        held,
        arrived.set,
        lambda lease, _: missed.append(lease.url),
        options,
    )

    class Taking:
        async def lose(self, times=1):
            for _ in range(times):
                await frontier.claim(100, lease=0.001)
                await asyncio.sleep(0.01)

        async def take(self):
            """The next one that comes."""
            while (lease := prefetch.take()) is None:
                arrived.clear()
                await asyncio.wait_for(arrived.wait(), 100)
            return lease

        async def end(self, lease):
            prefetch.download_ended()
            await frontier.complete(lease)
            held.drop([lease])
            prefetch.ended([lease])
            prefetch.look()

        def start(self):
            self.task = asyncio.create_task(prefetch.run(frontier))

    taking = Taking()
    taking.frontier, taking.held, taking.prefetch = frontier, held, prefetch
    taking.arrived, taking.missed = arrived, missed
    yield taking
    taking.task.cancel()
    await asyncio.gather(taking.task, return_exceptions=True)
    await frontier.close()


async def test_a_spider_has_one_suspect_at_a_time(taking):
    await taking.frontier.enqueue(f"https://h{number}.example/" for number in range(4))
    await taking.lose()
    await taking.frontier.enqueue(f"https://fresh{number}.example/" for number in range(4))
    taking.start()
    done, most = set(), 0
    for _ in range(8):
        lease = await taking.take()
        most = max(most, sum(one.suspect for one in taking.held))
        done.add(lease.url)
        await taking.end(lease)
    assert (len(done), most) == (8, 1)


async def test_a_spider_ends_its_pages_before_it_takes_one_that_took_a_worker_down(taking):
    await taking.frontier.enqueue("https://guilty.example/")
    await taking.lose(2)
    taking.start()
    first = await taking.take()
    assert first.crashes == 1
    await taking.frontier.enqueue(f"https://fresh{number}.example/" for number in range(3))
    await asyncio.sleep(0.6)  # it would have taken them by now
    assert list(taking.held) == [first]
    await taking.end(first)
    for _ in range(3):
        await taking.end(await taking.take())


async def test_a_request_that_misses_many_windows_waits_and_is_not_blamed_for_a_busy_reactor(valkey, crawl):
    pace = Politeness(delay=0.02)
    told, arrived = [], asyncio.Event()
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=pace) as frontier:
        await frontier.enqueue("https://late.example/")
        options = PluginOptions(url=valkey.url, crawl=crawl, politeness=pace)

        def missed(lease, release):
            told.append(release)
            held.drop([lease])
            giving_back.append(asyncio.ensure_future(frontier.release(lease)))

        held, giving_back = HeldLeases(), []
        loop = asyncio.get_running_loop()
        prefetch = Prefetch(loop, loop.call_soon, Retrier(), held, arrived.set, missed, options)
        task = asyncio.create_task(prefetch.run(frontier))
        while len(told) < MOST_MISSED:
            await asyncio.wait_for(arrived.wait(), 100)
            arrived.clear()
            time.sleep(0.05)  # noqa: ASYNC251 - the reactor is busy
            assert prefetch.take() is None
        task.cancel()
        await asyncio.gather(task, *giving_back, return_exceptions=True)
    assert told[:-1] == [Release()] * (MOST_MISSED - 1)
    assert told[-1].after > 1


async def test_a_spider_keeps_a_delay_that_an_operator_has_set(taking):
    """Then a request is handed out in its window or not at all."""
    await taking.frontier.admin.set_politeness(Politeness(delay=0.2))
    await taking.frontier.enqueue("https://a.example/")
    taking.start()
    await asyncio.wait_for(taking.arrived.wait(), 100)
    time.sleep(0.5)  # noqa: ASYNC251 - the reactor is busy
    assert taking.prefetch.take() is None
    assert taking.missed == ["https://a.example/"]
