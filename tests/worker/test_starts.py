"""Windows in which pages may begin."""

import time

import pytest

from silkline import Request
from silkline.core.lease import Lease
from silkline.worker.starts import Starts


def lease(claimed_at, lasting=15.0):
    return Lease(
        request=Request("https://a.example/"),
        shard=0,
        token=1,
        host="a.example",
        attempt=1,
        first=claimed_at,
        expires=claimed_at + lasting,
    )


def test_windows_are_as_far_apart_as_their_claims():
    starts = Starts(delay=1.0, lease=15.0)
    [first] = starts.windows([lease(1000.0)], starts.slack)
    second, third = starts.windows([lease(1001.0), lease(1001.5)], starts.slack)
    assert second.opens - first.opens <= 1.0  # it came sooner than expected: clocks are compared by the best
    assert third.opens - second.opens == pytest.approx(0.5)


def test_a_claim_that_was_long_on_its_way_has_missed_its_window():
    starts = Starts(delay=1.0, lease=15.0)
    now = time.time()
    [prompt] = starts.windows([lease(now)], starts.slack)
    assert not prompt.missed
    assert 0 < prompt.opens - time.monotonic() <= 0.1
    [late] = starts.windows([lease(now - 0.2)], starts.slack)
    assert late.missed


def test_without_a_delay_nothing_is_held_back_or_missed():
    starts = Starts(delay=0, lease=15.0)
    starts.windows([lease(time.time())], starts.slack)
    [late] = starts.windows([lease(time.time() - 100)], starts.slack)
    assert late.opens <= time.monotonic()
    assert not late.missed


def test_the_window_is_half_the_slack():
    starts = Starts(delay=1.0, lease=15.0)
    [window] = starts.windows([lease(time.time())], 0.2)
    assert window.closes - window.opens == pytest.approx(0.1)


def test_slack_grows_with_misses_to_a_limit_and_shrinks_again():
    starts = Starts(delay=0.4, lease=15.0)
    least = starts.slack
    starts.missed()
    assert starts.slack == 2 * least
    for _ in range(10):
        starts.missed()
    assert starts.slack == 0.2  # half the delay
    for _ in range(1000):
        starts.begun()
    assert starts.slack == least
