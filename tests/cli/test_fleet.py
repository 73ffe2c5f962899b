"""The fleet of a run: real worker processes, what becomes of those that fall silent and of those that are ordered away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import urllib.error
import urllib.request

import pytest

from silkline import Frontier
from silkline.ops.http_server import ListenAddress
from silkline.ops.monitor import Monitor
from silkline.runtime.counters import Counters
from silkline.worker.crawl.loading import load_crawl
from silkline.worker.process import fleet as fleet_module
from silkline.worker.process.fleet import FRUITLESS, HOPELESS, Fleet, FleetMember, this_python
from silkline.worker.process.reports import WorkerReport
from tests.cli.sites import chain, wait_until


async def until(holds):
    async with asyncio.timeout(100):
        while not holds():  # noqa: ASYNC110 - counts that come from other processes
            await asyncio.sleep(0.02)


@pytest.fixture
async def start(valkey, site, write, workplace):
    """Starts a fleet on a crawl that takes a while; answers it and the crawl."""
    opened = []

    async def start_(workers, *options):
        file = str(workplace / write(site(chain(600), latency=0.2)))
        crawl = load_crawl(file)
        frontier = await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments)
        await frontier.enqueue(crawl.listed_starts())
        command = [*this_python(), "worker", file, "--concurrency", "2", "--log-level", "warning", *options]
        fleet = Fleet(command, workers, environment={"SILKLINE_REDIS": valkey.url})
        opened.append((fleet, asyncio.create_task(fleet.run()), frontier))
        return fleet, frontier

    yield start_
    for fleet, running, frontier in opened:
        fleet.kill()
        await asyncio.wait_for(running, 100)
        await frontier.close()


async def status(monitor, path):
    """The status and the text of an answer."""

    def get():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{monitor.port}{path}", timeout=100) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(get)


async def test_a_frozen_worker_makes_its_run_not_ready_and_in_the_end_not_healthy(start, monkeypatch):
    fleet, frontier = await start(2)
    await until(lambda: all(member.report and member.report.counters.pages for member in fleet.members))
    frozen = fleet.members[1]
    async with Monitor(ListenAddress("127.0.0.1", 0), frontier, fleet) as monitor:
        assert [(await status(monitor, path))[0] for path in ("/healthz", "/readyz")] == [200, 200]
        os.kill(frozen.process.pid, signal.SIGSTOP)
        try:
            monkeypatch.setattr(fleet_module, "STALLED", 2.0)
            await until(lambda: frozen.silence > 2)
            code, text = await status(monitor, "/readyz")
            assert (code, "worker 2 has not reported for" in text) == (503, True)
            assert (await status(monitor, "/healthz"))[0] == 200, "it may yet come round"
            monkeypatch.setattr(fleet_module, "HUNG", 2.0)
            code, text = await status(monitor, "/healthz")
            assert (code, "worker 2 has not reported for" in text) == (503, True)
        finally:
            os.kill(frozen.process.pid, signal.SIGCONT)
        await until(lambda: not fleet.stall)
        monkeypatch.undo()
        assert [(await status(monitor, path))[0] for path in ("/healthz", "/readyz")] == [200, 200]


async def test_a_worker_that_waits_for_its_sink_says_so_and_does_not_count_as_hung(start):
    fleet, _frontier = await start(1, "-o", "postgresql://nobody@127.0.0.1:1/items")
    await until(lambda: fleet.stall)
    assert "127.0.0.1" in fleet.stall
    assert fleet.troubles == [fleet.stall]
    assert not fleet.hung


async def test_a_worker_that_an_operator_ordered_away_does_not_end_the_resizing(start):
    fleet, frontier = await start(2)
    await until(lambda: all(member.report and member.report.counters.pages for member in fleet.members))
    first = fleet.members[0]
    [name] = [state.name for state in await frontier.admin.workers() if state.info["pid"] == first.process.pid]
    assert await frontier.admin.order(name, "stop")
    await until(lambda: first.gone)
    assert first.deaths == 0
    assert len(fleet.active) == 1
    fleet.resize(3)
    assert len(fleet.active) == 3
    await until(lambda: all(member.report and member.report.counters.pages for member in fleet.active))


async def test_once_a_worker_has_left_by_itself_nobody_is_started_any_more(start):
    fleet, frontier = await start(2)
    await until(lambda: all(member.report and member.report.counters.pages for member in fleet.members))
    await frontier.admin.cancel()
    await until(lambda: any(member.gone for member in fleet.members))
    fleet.resize(3)
    assert len(fleet.members) == 2


def died(fleet, member, code, page="", ended=0, *, working=True):
    """One process of this member died soon after its start."""
    member.report = WorkerReport(1, Counters(ended=ended), working=working)
    fleet._count_death(member, code, page, soon=True)


def test_one_hostile_page_does_not_show_that_a_worker_cannot_work():
    fleet, member = Fleet([], 1), FleetMember(1)
    for _ in range(3):  # then it is buried
        died(fleet, member, -signal.SIGSEGV)
        died(fleet, member, 3, " while handling https://a.example/7")
    assert member.early_deaths < HOPELESS
    assert member.fruitless < FRUITLESS
    died(fleet, member, -signal.SIGKILL, ended=1)
    assert member.fruitless == 0


def test_a_worker_that_dies_of_every_page_or_before_its_first_cannot_work():
    fleet, member = Fleet([], 1), FleetMember(1)
    for _ in range(FRUITLESS):
        died(fleet, member, -signal.SIGSEGV)
    assert member.fruitless >= FRUITLESS
    for _ in range(HOPELESS):
        died(fleet, member, -signal.SIGSEGV, working=False)
    assert member.early_deaths >= HOPELESS
    member = FleetMember(1)
    for _ in range(HOPELESS):
        died(fleet, member, 3)
    assert member.early_deaths >= HOPELESS


def test_a_worker_that_was_killed_is_not_quoted():
    """Its last line has nothing to do with it."""
    member = FleetMember(1)
    member.words = "12:00:01 fetched https://a.example/1\n"
    assert fleet_module._last_words(member, 1) == "12:00:01 fetched https://a.example/1"
    words = fleet_module._last_words(member, -signal.SIGKILL)
    assert words == "it was killed (SIGKILL, often sent by the system when memory runs out)"


@pytest.mark.long
def test_a_run_that_was_stopped_for_a_while_takes_no_worker_for_blocked(running, site, write, valkey):
    """As with Ctrl-Z and fg: its workers worked on, and it could not hear them."""
    here = site(chain(150), latency=0.2)
    process = running("run", write(here), "--blocked-limit", "2", "--json", "--redis", valkey.url)
    wait_until(lambda: len(here.visits) > 3)
    process.process.send_signal(signal.SIGSTOP)
    time.sleep(7)  # more than twice the limit
    process.process.send_signal(signal.SIGCONT)
    assert process.end() == 0, process.err
    assert json.loads(process.out)["restarts"] == 0
