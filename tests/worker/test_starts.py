"""Windows in which pages may begin."""

import asyncio
import time
import types

import pytest

from silkline import Frontier, Politeness, Release, Request
from silkline.core.lease import Lease
from silkline.runtime import start_windows as starts_module
from silkline.runtime.start_windows import (
    CONNECTED,
    LATE_IN_A_ROW,
    MORE_MISSED,
    MOST_MISSED,
    HostStart,
    StartReports,
    StartWindows,
)

NOW = 1000.0


@pytest.fixture(autouse=True)
def now(monkeypatch):
    """Time stands still, however long a busy machine takes for a line of a test."""
    monkeypatch.setattr(starts_module, "time", types.SimpleNamespace(monotonic=lambda: NOW))


def lease(claimed_at=0.0, lasting=15.0, shard=0, ahead=0.0, url="https://a.example/", token=1):
    return Lease(
        request=Request(url),
        shard=shard,
        wire_token=str(token),
        host=url.split("/")[2],
        attempt=1,
        first=claimed_at,
        expires=claimed_at + lasting,
        ahead=ahead,
    )


def test_windows_are_as_far_apart_as_their_claims():
    starts = StartWindows(delay=1.0, lease=15.0)
    [first] = starts.windows([lease(1000.0)], starts.slack)
    second, third = starts.windows([lease(1001.0), lease(1001.5)], starts.slack)
    assert second.opens - first.opens <= 1.0  # it came sooner than expected: clocks are compared by the best
    assert third.opens - second.opens == pytest.approx(0.5)


def test_a_claim_that_was_long_on_its_way_has_missed_its_window():
    starts = StartWindows(delay=1.0, lease=15.0)
    [prompt] = starts.windows([lease(NOW)], starts.slack)
    assert not prompt.missed
    assert prompt.opens - NOW == pytest.approx(0.1)
    [late] = starts.windows([lease(NOW - 0.2)], starts.slack)
    assert late.missed


def test_without_a_delay_nothing_is_held_back_or_missed():
    starts = StartWindows(delay=0, lease=15.0)
    starts.windows([lease(NOW)], starts.slack)
    [late] = starts.windows([lease(NOW - 100)], starts.slack)
    assert late.opens <= NOW
    assert not late.missed


def test_the_window_is_half_the_slack():
    starts = StartWindows(delay=1.0, lease=15.0)
    [window] = starts.windows([lease(NOW)], 0.2)
    assert window.closes - window.opens == pytest.approx(0.1)


def test_slack_grows_with_misses_to_a_limit_and_shrinks_again():
    starts = StartWindows(delay=0.4, lease=15.0)
    least = starts.slack
    starts.missed()
    assert starts.slack == 2 * least
    for _ in range(10):
        starts.missed()
    assert starts.slack == 0.2  # half the delay
    for _ in range(1000):
        starts.begun()
    assert starts.slack == least


@pytest.mark.parametrize("behind", [0.3, 3.0, 3000.0])
def test_shards_whose_clocks_differ_each_have_their_own_time(behind):
    starts = StartWindows(delay=1.0, lease=15.0)
    for _ in range(20):
        ahead, late = starts.windows([lease(NOW), lease(NOW - behind, shard=1)], starts.slack)
        assert not ahead.missed
        assert not late.missed
        assert late.opens - ahead.opens == pytest.approx(0, abs=0.05)


def test_a_clock_that_lost_time_when_the_servers_was_set_back_is_believed_at_once():
    starts = StartWindows(delay=1.0, lease=15.0)
    for _ in range(50):
        starts.windows([lease(NOW)], starts.slack)
    for _ in range(3):
        [window] = starts.windows([lease(NOW - 0.9, ahead=60)], starts.slack)
        assert not window.missed


def test_a_clock_that_is_suddenly_behind_is_believed_after_a_few_claims():
    starts = StartWindows(delay=1.0, lease=15.0)
    for _ in range(50):
        starts.windows([lease(NOW)], starts.slack)
    windows = [starts.windows([lease(NOW - 5)], starts.slack)[0] for _ in range(LATE_IN_A_ROW + 1)]
    assert [window.missed for window in windows] == [True] * (LATE_IN_A_ROW - 1) + [False] * 2


def test_of_claims_that_are_late_now_and_then_nothing_is_learnt():
    starts = StartWindows(delay=1.0, lease=15.0)
    for _ in range(LATE_IN_A_ROW):
        [prompt] = starts.windows([lease(NOW)], starts.slack)
        [late] = starts.windows([lease(NOW - 5)], starts.slack)
        assert late.missed
        assert not prompt.missed


LATE = lease(url="https://a.example/late")
SAME_HOST, OTHER_HOST = lease(url="https://a.example/other"), lease(url="https://b.example/")


def misses(starts, page, times=MOST_MISSED):
    """How the page is given back after the last of so many missed windows; None if that counts as a failed attempt."""
    return [starts.missed(page) for _ in range(times)][-1]


@pytest.mark.parametrize("other", [SAME_HOST, OTHER_HOST])
def test_a_page_that_is_late_while_others_are_not_has_failed(other):
    starts = StartWindows(delay=1.0, lease=15.0)
    assert misses(starts, LATE, MOST_MISSED - 1) == Release()
    starts.begun(other)
    assert starts.missed(LATE) is None
    assert misses(starts, LATE) is None  # also when no other page is left


def test_a_page_that_is_alone_is_not_blamed_and_waits_longer_and_longer():
    starts = StartWindows(delay=1.0, lease=15.0)
    starts.begun(SAME_HOST)  # before it was late for the first time
    assert misses(starts, LATE, MOST_MISSED - 1) == Release()
    waits = [starts.missed(LATE).after for _ in range(8 * MORE_MISSED)]
    assert [wait for wait in waits if wait] == waits[::MORE_MISSED] == [3, 4, 6, 10, 18, 34, 60, 60]
    starts.begun(SAME_HOST)  # which had its turn meanwhile
    assert starts.missed(LATE) is None


def test_a_page_is_not_blamed_when_the_others_are_late_as_well():
    starts = StartWindows(delay=1.0, lease=15.0)
    for number in range(MOST_MISSED):
        assert starts.missed(LATE)
        assert starts.missed(SAME_HOST)
        assert starts.missed(OTHER_HOST)
        if number % 10 == 9:  # one of ten is in time, by luck
            starts.begun(OTHER_HOST)
            starts.begun(SAME_HOST)


def test_all_pages_of_a_host_that_delays_them_are_to_blame():
    starts = StartWindows(delay=1.0, lease=15.0)
    pages = [lease(url=f"https://a.example/{number}") for number in range(40)]
    assert {misses(starts, page, MOST_MISSED - 1) for page in pages} == {Release()}
    starts.begun(OTHER_HOST)
    assert {starts.missed(page) for page in pages} == {None}


def test_a_page_that_began_in_time_is_counted_from_the_start():
    starts = StartWindows(delay=1.0, lease=15.0)
    misses(starts, LATE, MOST_MISSED - 1)
    starts.begun(OTHER_HOST)
    starts.begun(LATE)
    assert misses(starts, LATE, MOST_MISSED - 1) == Release()


def set_time(monkeypatch, at):
    monkeypatch.setattr(starts_module, "time", types.SimpleNamespace(monotonic=lambda: at))


def reported_start(monkeypatch, late=0.0):
    """Windows of a worker that knows when the last page of a host started: *late* seconds after its window has opened."""
    starts = StartWindows(delay=1.0, lease=15.0, reported=True)
    starts.windows([lease(NOW)], starts.slack)
    set_time(monkeypatch, NOW + 2)
    [window] = starts.windows([lease(NOW + 2)], starts.slack)
    at = window.opens + late
    set_time(monkeypatch, at)
    return starts, starts.start_of(lease(NOW + 2), window), at


def pages(number):
    return [lease(NOW, url=f"https://a.example/{token}", token=token) for token in range(number)]


def test_a_page_that_opens_a_connection_is_recognized(monkeypatch):
    set_time(monkeypatch, NOW)
    starts, (one, two, three, four) = StartWindows(delay=1.0, lease=15.0, reported=True), pages(4)
    assert not starts.sending(one)
    assert not starts.sending(two)
    starts.ended(one, responded=True)
    starts.ended(two, responded=True)
    assert starts.sending(three)
    assert starts.sending(four)
    assert not starts.sending(one), "there were only two at a time"
    assert not starts.sending(lease(NOW, url="https://b.example/"))


@pytest.mark.parametrize(
    ("responded", "later", "free"), [(False, 0, False), (None, 0, True), (True, CONNECTED + 1, False)]
)
def test_connections_are_not_reused_after_a_failure_or_a_pause(monkeypatch, responded, later, free):
    set_time(monkeypatch, NOW)
    starts, (one, two, three) = StartWindows(delay=1.0, lease=15.0, reported=True), pages(3)
    starts.sending(one)
    starts.ended(one, responded=True)
    assert starts.sending(two)
    starts.ended(two, responded=responded)
    set_time(monkeypatch, NOW + later)
    assert starts.sending(three) is free


def test_a_page_is_reported_with_what_it_used(monkeypatch):
    starts, start, _ = reported_start(monkeypatch, late=0.02)
    report = starts.report(start)
    assert (report.claimed, report.slack) == (NOW + 2, starts.slack)
    assert 0.02 <= report.used <= 0.03


def test_a_page_that_used_its_slack_is_not_reported(monkeypatch):
    _, start, _ = reported_start(monkeypatch, late=0.1)
    assert start is None


def test_the_next_page_of_a_host_starts_one_delay_after_one_that_was_reported(monkeypatch):
    """Its claim came 30 ms late, which is not lost."""
    starts, start, at = reported_start(monkeypatch)
    starts.reported(start, 1.0)
    set_time(monkeypatch, NOW + 3.03)
    [window] = starts.windows([lease(NOW + 3.03)], starts.slack)
    assert 1.0 <= window.opens - at <= 1.01
    assert window.closes > window.planned > window.opens


@pytest.mark.parametrize("unknown", ["not reported", "another host", "long ago", "another delay"])
def test_a_page_starts_when_its_claim_says_if_another_worker_may_have_started_the_one_before(monkeypatch, unknown):
    starts, start, _ = reported_start(monkeypatch)
    if unknown != "not reported":
        starts.reported(start, 1.0)
    if unknown == "another delay":
        starts.set_delay(0.9)
    url = "https://b.example/" if unknown == "another host" else "https://a.example/"
    claimed = NOW + (3.6 if unknown == "long ago" else 3.03)
    set_time(monkeypatch, claimed)
    [window] = starts.windows([lease(claimed, url=url)], starts.slack)
    assert window.opens == window.planned


async def test_starts_are_reported_to_the_frontier(valkey, crawl, monkeypatch):
    monkeypatch.setattr(starts_module, "time", time)
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=60), lease=15.0) as frontier:
        await frontier.enqueue(f"https://a.example/{number}" for number in range(3))
        starts = StartWindows(delay=60, lease=15.0, reported=True)
        [one] = await frontier.claim(1, slack=30)
        [window] = starts.windows([one], 30)
        reports, known = StartReports(starts), asyncio.Event()
        monkeypatch.setattr(starts, "reported", lambda start, delay: known.set() if delay == 60 else None)
        running = asyncio.create_task(reports.run(frontier))
        reports.add(HostStart(one, window, window.planned))
        await asyncio.wait_for(known.wait(), 60)
        running.cancel()
        [after] = await frontier.admin.hosts()
        assert after.opens_in < 61  # the slack of half a minute was returned
