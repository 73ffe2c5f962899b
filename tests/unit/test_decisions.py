"""Backoff, politeness and budgets: decisions without a clock or a server."""

from __future__ import annotations

import random

import pytest

from silkline import Backoff, Budget, Bury, Politeness, RetryIn
from silkline.errors import ConfigError

rng = random.Random(1)


def test_the_wait_doubles_up_to_the_cap_and_jitter_takes_any_part_of_it():
    backoff = Backoff(base=2, cap=10, max_attempts=9)
    for attempt, ceiling in ((1, 2), (2, 4), (3, 8), (4, 10), (8, 10)):
        waits = [backoff.decide(attempt=attempt, reason="slow", rng=rng).after for _ in range(300)]
        assert 0 <= min(waits) < ceiling * 0.1
        assert ceiling * 0.9 < max(waits) <= ceiling


def test_after_the_last_attempt_the_request_is_buried_with_its_reason():
    decided = Backoff(max_attempts=3).decide(attempt=3, reason="HTTP 503", rng=rng, status=503)
    assert decided == Bury("HTTP 503", 503)


def test_a_huge_attempt_number_does_not_overflow():
    assert Backoff(max_attempts=10**9).decide(attempt=10**6, reason="slow", rng=rng).after <= 3600


def test_a_list_of_seconds_is_followed_step_by_step():
    backoff = Backoff.of([1, 10, 60])
    decided = [backoff.decide(attempt=attempt, reason="slow", rng=rng) for attempt in (1, 2, 3, 4)]
    assert decided[:3] == [RetryIn(1, "slow"), RetryIn(10, "slow"), RetryIn(60, "slow")]
    assert isinstance(decided[3], Bury)
    assert Backoff.of(backoff) is backoff


@pytest.mark.parametrize(
    "nonsense",
    [
        lambda: Backoff(base=0),
        lambda: Backoff(base=5, cap=1),
        lambda: Backoff(max_attempts=0),
        lambda: Backoff.of([]),
        lambda: Backoff.of([-1]),
        lambda: Politeness(delay=-1),
        lambda: Politeness(delay=float("nan")),
        lambda: Politeness(concurrency=0),
        lambda: Politeness(burst=0),
        lambda: Budget(pages=0),
        lambda: Budget(pages_per_host=-1),
        lambda: Budget(depth=-1),
        lambda: Budget(pages=1.5),
    ],
)
def test_nonsense_is_refused_at_once(nonsense):
    with pytest.raises(ConfigError):
        nonsense()
