"""Windows in which pages may begin."""

import time

import pytest

from silkline import Request
from silkline.core.lease import Lease
from silkline.worker.starts import LATE_IN_A_ROW, Starts


def lease(claimed_at, lasting=15.0, shard=0):
    return Lease(
        request=Request("https://a.example/"),
        shard=shard,
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


@pytest.mark.parametrize("behind", [0.3, 3.0, 3000.0])
def test_shards_whose_clocks_differ_each_have_their_own_time(behind):
    starts = Starts(delay=1.0, lease=15.0)
    for _ in range(20):
        now = time.time()
        ahead, late = starts.windows([lease(now), lease(now - behind, shard=1)], starts.slack)
        assert not ahead.missed
        assert not late.missed
        assert late.opens - ahead.opens == pytest.approx(0, abs=0.05)


def test_a_clock_that_was_set_back_is_believed_after_a_few_claims():
    starts = Starts(delay=1.0, lease=15.0)
    for _ in range(50):
        starts.windows([lease(time.time())], starts.slack)
    windows = [starts.windows([lease(time.time() - 5)], starts.slack)[0] for _ in range(LATE_IN_A_ROW + 1)]
    assert [window.missed for window in windows] == [True] * (LATE_IN_A_ROW - 1) + [False] * 2


def test_of_claims_that_are_late_now_and_then_nothing_is_learnt():
    starts = Starts(delay=1.0, lease=15.0)
    for _ in range(LATE_IN_A_ROW):
        [prompt] = starts.windows([lease(time.time())], starts.slack)
        [late] = starts.windows([lease(time.time() - 5)], starts.slack)
        assert late.missed
        assert not prompt.missed
