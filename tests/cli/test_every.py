"""``silkline run --every``: the same crawl again and again, one run at a time."""

from __future__ import annotations

import os
import signal
from itertools import pairwise

import pytest

from silkline import Politeness, SyncFrontier
from silkline.cli.run.every import HOST, LEASE, RunSchedule, next_due, read_interval, schedule_name
from silkline.errors import ConfigError
from silkline.testing import SiteResponse
from tests.cli.sites import chain, lines_of, wait_until
from tests.worker.conftest import until


@pytest.fixture
def start(running, valkey):
    def start_(*arguments):
        return running("run", *arguments, "--redis", valkey.url)

    return start_


@pytest.mark.parametrize(
    ("newest", "now", "catch_up", "due"),
    [
        (0, 1000.7, True, 1000),
        (1000, 900, True, 0),
        (1000, 1000, True, 0),
        (1000, 1010, True, 1060),
        (1000, 1010, False, 1060),
        (1000, 1060, True, 1060),
        (1000, 1200, True, 1180),
        (1000, 1200, False, 1240),
    ],
)
def test_the_next_run_is_on_the_grid_of_the_first_one(newest, now, catch_up, due):
    assert next_due(newest, now, 60.0, catch_up=catch_up) == due


@pytest.mark.parametrize("text", ["", "0s", "soon", "-1h", "1.5"])
def test_what_is_no_interval_is_refused(text):
    with pytest.raises(ConfigError, match="--every must be an interval of whole seconds, such as 30m"):
        read_interval(text)


def test_crawls_whose_long_names_begin_alike_have_schedules_of_their_own():
    assert schedule_name("shop") == "shop.runs"
    names = {schedule_name("a" * 59), *(schedule_name("a" * 63 + end) for end in "bc")}
    assert len(names) == 3
    assert max(map(len, names)) == 64


async def test_a_signal_while_a_run_is_claimed_leaves_it_to_another_process(valkey, crawl):
    async with RunSchedule.open(valkey.url, crawl, 3600.0) as schedule:
        claim = schedule._frontier.claim

        async def claim_late(*arguments, **options):
            leases = await claim(*arguments, **options)
            if leases:
                os.kill(os.getpid(), signal.SIGTERM)
                await until(lambda: schedule.stop_signal)
            return leases

        schedule._frontier.claim = claim_late
        assert await schedule.next_turn() is None
        stats = await schedule._frontier.admin.stats()
        assert (stats.ready, stats.leased) == (1, 0)


def test_each_run_is_afresh_until_a_signal(start, site, write, workplace):
    served = site(chain(3))
    run = start(write(served), "-o", "items.jsonl", "--every", "1s")
    wait_until(lambda: len(served.visits.to(path="/")) >= 3)
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 143, run.err
    visits = [len(served.visits.to(path=f"/{number}")) for number in (1, 2, 3)]
    assert len(set(visits)) == 1 or min(visits) >= 2
    assert len(lines_of(workplace / "items.jsonl")) >= 8
    assert run.out.count("finished") >= 2


def test_two_processes_never_run_it_twice_at_a_time(start, site, write, valkey, crawl):
    slow = {"/1": SiteResponse("slow", delay=1.5)}
    served = site(chain(2, **slow))
    file = write(served)
    runs = [start(file, "--every", "1s") for _ in range(2)]
    wait_until(lambda: len(served.visits.to(path="/1")) >= 3)
    for run in runs:
        run.process.send_signal(signal.SIGTERM)
    assert {run.end() for run in runs} == {143}, [run.err for run in runs]
    assert served.visits.greatest_concurrency() <= 2, "the pages of one run"
    begun, slowly = served.visits.to(path="/"), served.visits.to(path="/1")
    assert all(later.at - earlier.at >= 1.5 for earlier, later in pairwise(begun))
    assert len(begun) - len(slowly) in (0, 1)


def test_a_run_that_was_stopped_continues_where_it_was(start, site, write, valkey, crawl):
    gate = []
    served = site(chain(2, **{"/2": lambda _: "open" if gate else SiteResponse("closed", status=503, delay=0.2)}))
    file = write(served, retries=[0.2] * 90)
    first = start(file, "--every", "1h")
    wait_until(lambda: len(served.visits.to(path="/2")) >= 2)
    first.process.send_signal(signal.SIGTERM)
    assert first.end() == 143, first.err
    gate.append(True)
    second = start(file, "--every", "1h")
    second.wait_for("finished")
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        assert (frontier.admin.stats().done, frontier.admin.stats().dead) == (3, 0)
        starts = [entry for entry in frontier.admin.audit() if entry.what == "start run"]
    assert len(starts) == 1
    assert (len(served.visits.to(path="/")), len(served.visits.to(path="/1"))) == (1, 1)
    third = start(file, "--every", "1h")
    third.wait_for("runs every 1 h")
    with SyncFrontier.open(valkey.url, crawl=schedule_name(crawl), create=False) as frontier:
        wait_until(lambda: frontier.admin.stats().delayed == 1)
    for run in (second, third):
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 130, run.err
    assert len(served.visits.to(path="/")) == 1


def test_a_schedule_is_running_and_its_dead_letters_can_be_retried(start, silkline, site, write, valkey, crawl):
    file = write(site(chain(2, **{"/2": SiteResponse("gone", status=410)})))
    run = start(file, "--every", "1h")
    run.wait_for("To retry them")
    with SyncFrontier.open(valkey.url, crawl=schedule_name(crawl), create=False) as frontier:
        wait_until(lambda: frontier.admin.stats().delayed == 1 and frontier.admin.workers())
        status = frontier.admin.status()
        assert (status.word, status.advice) == ("running", "")
        [worker] = frontier.admin.workers()
        frontier.admin.order(worker.name, "stop")
    assert run.end() == 143, run.err
    assert f"To retry them: silkline run {file} --redis {valkey.url} --revive" in run.out
    retried = silkline("run", file, "--redis", valkey.url, "--revive")
    assert (retried.code, "1 dead letter revived" in retried.err) == (5, True), retried


def test_it_asks_before_it_deletes_a_crawl_that_was_started_in_another_way(silkline, site, write, valkey):
    file = write(site(chain(1)))
    assert silkline("run", file, "--redis", valkey.url).code == 0
    refused = silkline("run", file, "--every", "1h", "--redis", valkey.url)
    assert refused.code == 2
    assert "needs --yes" in refused.err


def test_it_does_not_ask_while_another_process_begins_a_run(start, site, write, valkey, crawl):
    pace = Politeness(delay=0, concurrency=1)
    with (
        SyncFrontier.open(valkey.url, crawl=schedule_name(crawl), politeness=pace, lease=LEASE) as schedule,
        SyncFrontier.open(valkey.url, crawl=crawl) as begun,
    ):
        schedule.enqueue([f"https://{HOST}/2026-01-01T00:00:00+00:00"])
        assert schedule.claim(1)
        begun.enqueue(["https://a.example/"])
        run = start(write(site(chain(1))), "--every", "1h")
        run.wait_for("runs every 1 h")
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 130, run.err


def test_options_and_crawls_that_do_not_fit_are_refused(silkline, site, write, valkey):
    file = write(site(chain(1)))
    refused = silkline("run", file, "--every", "1h", "--fresh", "--redis", valkey.url)
    assert (refused.code, "--every and --fresh exclude each other" in refused.err) == (2, True)
    again = write(site(chain(1)), "\n@crawl.handler(revisit='1h')\ndef page(page):\n    yield {}\n")
    refused = silkline("run", again, "--every", "1h", "--redis", valkey.url)
    assert (refused.code, "never ends, because its pages are visited again" in refused.err) == (2, True)
