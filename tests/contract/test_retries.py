"""Trying again."""

from __future__ import annotations

import pytest

from silkline import Politeness, Request, RetryIn
from silkline.core.lease import FailedAttempt
from silkline.errors import ConfigError
from tests.contract.frontiers import hosts_of, page, paths


async def test_a_retry_comes_after_its_time_and_counts_attempts(frontier, clock):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.retry(lease, after=5)
    stats = await frontier.admin.stats()
    assert (stats.delayed, stats.leased) == (1, 0)
    clock.advance(4.999)
    assert await frontier.claim() == []
    clock.advance(0.001)
    [again] = await frontier.claim()
    assert (again.attempt, again.crashes, again.first) == (2, 0, lease.first)


async def test_a_retry_without_a_time_comes_at_once(frontier):
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim()
    await frontier.retry(lease)
    leases = await frontier.claim(5)
    assert paths(leases) == ["1", "2"]
    assert [lease.attempt for lease in leases] == [2, 1]


async def test_a_retry_keeps_its_priority_and_everything_else(frontier, clock):
    request = Request("https://a.example/x", "POST", {"A": "b"}, b"\x00", {"k": [1]}, 7, 3, "h")
    await frontier.enqueue([request, page("higher", priority=8), page("lower")])
    taken = {lease.request.priority: lease for lease in await frontier.claim(3)}
    for lease in taken.values():
        await frontier.retry(lease, after=1, reason="slow", status=503)
    clock.advance(1)
    leases = await frontier.claim(3)
    assert [lease.request.priority for lease in leases] == [8, 7, 0]
    assert leases[1].request == request


async def test_what_went_wrong_is_kept_as_history(frontier, clock):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.retry(lease, reason="a timeout\nof\tsorts", status=None)
    first = clock.seconds
    clock.advance(1.5)
    [lease] = await frontier.claim()
    await frontier.retry(lease, status=503)
    [lease] = await frontier.claim()
    assert lease.history == (FailedAttempt(first, "a timeout of sorts", None), FailedAttempt(clock.seconds, "", 503))
    await frontier.release(lease)
    [lease] = await frontier.claim()
    assert len(lease.history) == 2
    await frontier.retry(lease)
    [lease] = await frontier.claim()
    assert len(lease.history) == 2


async def test_of_a_long_history_the_latest_ten_stay(frontier):
    await frontier.enqueue(page(1))
    for number in range(15):
        [lease] = await frontier.claim()
        await frontier.retry(lease, reason=f"trial {number}")
    [lease] = await frontier.claim()
    assert [trial.reason for trial in lease.history] == [f"trial {number}" for number in range(5, 15)]
    assert lease.attempt == 16


async def test_a_reason_of_any_kind_does_no_harm(frontier):
    await frontier.enqueue(page(1))
    for reason in ("x" * 10_000, "\ud800\x00\n\x1e", "ünïcödé", ValueError("not even text")):
        [lease] = await frontier.claim()
        await frontier.retry(lease, reason=reason, status=500)
    [lease] = await frontier.claim()
    assert len(lease.history[0].reason) == 500
    assert lease.history[2].reason == "ünïcödé"
    assert lease.history[3].reason == "not even text"


@pytest.mark.parametrize("status", [-1, 0, 99_999, 2**40])
async def test_any_whole_number_may_be_a_status(frontier, status):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.retry(lease, status=status)
    [lease] = await frontier.claim()
    assert lease.history[-1].status == status
    await frontier.bury(lease, "odd", status=status)
    [letter] = await frontier.admin.dead(status=status)
    assert letter.status == status
    assert await frontier.admin.revive(status=status) == 1


@pytest.mark.parametrize("status", ["503", 5.5, [1], True, b"1", 2**70])
async def test_a_status_that_is_no_number_is_refused_before_it_can_be_stored(frontier, status):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    with pytest.raises(ConfigError):
        await frontier.retry(lease, status=status)
    with pytest.raises(ConfigError):
        await frontier.bury(lease, "odd", status=status)
    assert (await frontier.admin.explain(lease.url)).state == "leased"
    await frontier.retry(lease)
    assert len(await frontier.claim()) == 1


@pytest.mark.parametrize("after", [float("nan"), float("inf"), 1e18, "soon", None])
async def test_a_time_that_is_none_is_refused_before_anything_happens(frontier, after):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    with pytest.raises(ConfigError):
        await frontier.retry(lease, after=after)
    await frontier.complete(lease)


async def test_a_negative_time_means_at_once(frontier):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.retry(lease, after=-5)
    assert len(await frontier.claim()) == 1


async def test_a_retry_may_make_its_whole_host_wait(frontier, clock):
    await frontier.enqueue([page(1), page(2), page(1, "b.example")])
    [lease] = await frontier.claim(1)
    await frontier.retry(lease, after=30, block_host=True, reason="429", status=429)
    assert hosts_of(await frontier.claim(10, lease=100)) == ["b.example"]
    [state] = await frontier.admin.hosts("a.example")
    assert (state.place, state.opens_in, state.blocked_until) == ("waiting", 30, clock.seconds + 30)
    await frontier.enqueue(page(3))
    clock.advance(29.999)
    assert await frontier.claim(10) == []
    clock.advance(0.001)
    assert paths(await frontier.claim(10)) == ["1", "2", "3"]


async def test_a_shorter_block_does_not_lift_a_longer_one(frontier, clock):
    await frontier.enqueue([page(1), page(2)])
    first, second = await frontier.claim(2)
    await frontier.settle([(first, RetryIn(30, block_host=True)), (second, RetryIn(5, block_host=True))])
    assert (await frontier.admin.hosts("a.example"))[0].blocked_until == clock.seconds + 30


async def test_a_block_keeps_the_hosts_own_pace(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=5))
    await frontier.admin.set_host("a.example", concurrency=2, delay=3)
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim(10)
    await frontier.retry(lease, after=10, block_host=True)
    clock.advance(10)
    [state] = await frontier.admin.hosts("a.example")
    assert (state.delay, state.concurrency, state.blocked_until) == (3, 2, None)
    assert paths(await frontier.claim(10)) == ["1"]


async def test_a_block_of_a_host_with_nothing_else_holds_for_what_comes(frontier, clock):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.retry(lease, after=30, block_host=True)
    clock.advance(15)
    await frontier.enqueue(page(2, priority=9))
    assert await frontier.claim(10) == []
    clock.advance(15)
    assert paths(await frontier.claim(10)) == ["2", "1"]


async def test_a_block_that_is_over_leaves_nothing_behind(frontier, clock):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.retry(lease, after=30, block_host=True)
    clock.advance(30)
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    assert await frontier.admin.hosts() == []


async def test_a_traceback_that_is_no_text_is_kept_as_far_as_it_is(frontier):
    """A lone surrogate can come out of any JSON; a lease ends whatever is said about its page."""
    await frontier.enqueue("https://a.example/")
    [lease] = await frontier.claim()
    outcome = await frontier.settle([(lease, RetryIn(0, "it failed \ud800", None, detail="KeyError: '\ud800'"))])
    assert not outcome.lost
    [lease] = await frontier.claim()
    assert lease.attempt == 2
    assert lease.history[-1].detail == "KeyError: '?'"
