"""What the watchdog sees, and what a worker does about it in a program of the user's own."""

import asyncio
import os
import re
import threading
import time
from contextlib import suppress

import pytest

from silkline import Frontier, Worker
from silkline.errors import ConfigError
from silkline.runtime import memory
from silkline.runtime.counters import Counters
from silkline.runtime.memory import machine_memory, memory_of_a_worker, read_size, used_memory
from silkline.worker.failures import UnmetNeeds
from silkline.worker.options import WorkerOptions
from silkline.worker.process import process, watchdog
from silkline.worker.process.reports import ReportWriter
from silkline.worker.process.watchdog import LoopProbe, Trouble, Watchdog
from tests.chaos.proxy import Proxy
from tests.worker.conftest import ListSink


async def in_a_thread(function, *arguments):
    return await asyncio.to_thread(function, *arguments)


async def test_a_loop_that_runs_is_not_blocked_however_late_it_is_asked():
    """The thread that asks may have been busy itself."""
    pulse = LoopProbe(asyncio.get_running_loop())
    await in_a_thread(pulse.probe)
    await asyncio.sleep(0.05)  # the loop answers
    pulse._felt -= 60
    assert await in_a_thread(pulse.probe) == 0
    assert pulse.total == 0


async def test_a_blocked_loop_is_measured_from_the_question_it_does_not_answer():
    loop, felt, long_enough = asyncio.get_running_loop(), [0.0], threading.Event()
    began = time.monotonic()
    pulse = LoopProbe(loop)

    def ask():
        while felt[-1] or not long_enough.is_set():
            felt.append(pulse.probe())
            if felt[-1] > watchdog.BLOCKED_AFTER:
                long_enough.set()
            time.sleep(watchdog.LOOK_EVERY)

    asking = threading.Thread(target=ask)
    asking.start()
    long_enough.wait()
    blocked = time.monotonic() - began
    await in_a_thread(asking.join)
    assert next(seconds for seconds in felt if seconds > watchdog.BLOCKED_AFTER) <= blocked
    assert felt[-1] == 0
    assert pulse.total > watchdog.BLOCKED_AFTER


async def test_a_process_that_was_stopped_has_not_blocked_its_loop():
    """Neither the loop nor the thread that asks ran, and the process used no time of the processor."""
    pulse = LoopProbe(asyncio.get_running_loop())
    pulse.probe()
    pulse._asked -= 60
    pulse._felt -= 60
    assert pulse.probe() < 1


async def test_waiting_for_redis_does_not_look_like_a_blocked_loop(valkey, new_crawl, serve, caplog):
    """The heartbeat waits for a reply for seconds; the event loop runs on."""
    site = await serve({f"/{number}": "page" for number in range(4)}, latency=4.5)
    crawl = new_crawl([site.at(f"/{number}") for number in range(4)])
    crawl.handler(lambda page: None, name="parse")
    with Proxy(valkey.socket) as proxy:
        async with await Frontier.open(proxy.url, crawl=crawl.name, **crawl.arguments) as frontier:
            await frontier.enqueue(await crawl.starts())
            worker = Worker(crawl, frontier, options=WorkerOptions(concurrency=4, lease=2.0))
            working = asyncio.create_task(worker.run())
            while worker.in_flight < 4:  # noqa: ASYNC110 - a count in the worker
                await asyncio.sleep(0.01)
            proxy.swallow()
            await asyncio.sleep(3)
            proxy.swallow(swallow=False)
            await working
    assert "blocked" not in caplog.text
    assert worker.counters.blocked_seconds == 0


async def test_a_program_of_ones_own_is_not_ended_but_its_pages_are_given_back(valkey, new_crawl, serve, caplog):
    """The page that blocks is struck; the others are done by another worker while this one is blocked."""
    site = await serve({f"/{number}": "page" for number in range(8)})
    crawl = new_crawl([site.at(f"/{number}") for number in range(8)])
    sink, blocked = ListSink(), threading.Event()

    @crawl.handler
    async def parse(page):
        yield {"url": page.url}
        if page.url.endswith("/3") and not blocked.is_set():
            blocked.set()
            time.sleep(4)  # noqa: ASYNC251 - that is the point
        await asyncio.sleep(0.5)

    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        options = WorkerOptions(concurrency=8, lease=600.0, blocked_limit=2.0)
        await Worker(crawl, frontier, sinks=[sink], options=options).run()
        stats = await frontier.admin.stats()
    assert (stats.done, stats.dead, stats.rescued) == (8, 0, 1)
    assert len({item["url"] for item in sink.items}) == 8
    assert re.search("this worker was blocked for [2-9] s while handling", caplog.text)
    assert "/3 (test_watchdog.py:" in caplog.text


async def test_the_line_that_blocks_a_loop_outside_of_the_main_thread_is_named(valkey, new_crawl, serve, caplog):
    """A program may run its worker in a thread; the main thread waits here, and does nothing."""
    site = await serve({"/": "page"})
    crawl, blocked = new_crawl(site.at("/")), threading.Event()

    @crawl.handler
    def parse(page):
        if not blocked.is_set():
            blocked.set()
            time.sleep(4)

    async def work():
        async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
            await frontier.enqueue(await crawl.starts())
            await Worker(crawl, frontier, options=WorkerOptions(blocked_limit=2.0)).run()

    await in_a_thread(asyncio.run, work())
    line = parse.__code__.co_firstlineno + 4
    assert re.search(f"the event loop has been blocked for .* in parse \\(.*test_watchdog.py:{line}\\)", caplog.text)
    assert f"/ (test_watchdog.py:{line})" in caplog.text


def test_too_much_memory_is_reported_once_with_what_is_held():
    loop, told = asyncio.new_event_loop(), []
    running = threading.Thread(target=loop.run_forever, daemon=True)
    running.start()
    watching = Watchdog(loop, WorkerOptions(memory_limit=2**20), list, lambda task: None, told.append)
    watching.start()
    try:
        deadline = time.monotonic() + 100
        while not told and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(4 * watchdog.LOOK_EVERY)
    finally:
        watching.stop()
        watching.join()
        loop.call_soon_threadsafe(loop.stop)
        running.join()
        loop.close()
    [trouble] = told
    assert "more than its limit of 1 MiB" in trouble.what
    assert not trouble.is_blocked


def test_a_reader_that_is_stopped_does_not_block_the_worker():
    """Reports are left out until it reads again, and then come in one piece each."""

    class Working:
        counters, in_flight, trouble, stall, hung, ordered, held = Counters(), 0, "x" * 3000, None, False, False, []
        unmet_needs = UnmetNeeds(Counters())

    reading, writing = os.pipe()
    reports = ReportWriter(writing)
    for _ in range(100):
        reports.report_trouble("x" * 3000)
    received = b""
    os.set_blocking(reading, False)
    for _ in range(3):
        received += os.read(reading, 2**20)
        reports.end(Working())
    os.close(writing)
    received += os.read(reading, 2**20)
    os.close(reading)
    lines = received.decode().splitlines()
    assert 3 < len(lines) < 100
    assert all(line.startswith("{") and line.endswith("}") for line in lines)


def test_the_memory_of_the_machine_is_shared_by_its_workers(monkeypatch, tmp_path):
    whole = machine_memory()
    assert whole > used_memory() > 2**20
    assert memory_of_a_worker(4) == pytest.approx(whole * 0.8 / 4, rel=0.01)
    limit = tmp_path / "memory.max"
    limit.write_text("1073741824\n")
    monkeypatch.setattr(memory, "CGROUPS", (limit, tmp_path / "none"))
    assert memory_of_a_worker(2) == int(2**30 * 0.4)
    limit.write_text("max\n")
    assert machine_memory() >= whole


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512M", 2**29),
        ("2G", 2**31),
        ("1.5 GiB", 3 * 2**29),
        ("1048576", 2**20),
        ("none", None),
        ("300mb", 300 * 2**20),
    ],
)
def test_a_size_is_read_as_people_write_it(text, size):
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "many", "-1G", "12", "1X"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ConfigError, match="such as 512M"):
        read_size(text)


@pytest.mark.parametrize("wrong", [{"blocked_limit": 1}, {"blocked_limit": -1}, {"memory_limit": 5}])
def test_limits_that_cannot_be_are_refused(wrong):
    with pytest.raises(ConfigError):
        WorkerOptions(**wrong)


@pytest.mark.parametrize("error", [RuntimeError("dictionary changed size during iteration"), OSError("no space left")])
def test_a_process_ends_also_when_its_last_report_cannot_be_made(error, monkeypatch):
    """The report is made in the watchdog's thread, of what the event loop may change meanwhile."""

    class Broken:
        def end(self, *_):
            raise error

    codes = []
    monkeypatch.setattr(process.os, "_exit", codes.append)
    with suppress(type(error)):
        process._end_process(None, Broken(), Trouble("used 3 GB of memory", [], is_blocked=False))
    assert codes == [process.ENDED]
