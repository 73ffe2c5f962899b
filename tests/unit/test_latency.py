"""Quantiles of response times, from the histogram of a step."""

from __future__ import annotations

import pytest

from silkline.core.histogram import Histogram
from silkline.frontier.verbs.history import Counts, coarse_counts, quantile


def counted(*seconds):
    timing = Histogram()
    for one in seconds:
        timing.note(one)
    return Counts(fetched=len(seconds), **coarse_counts(timing))


def test_a_quantile_is_interpolated_in_its_bucket():
    counts = Counts(fetched=100, up_to_100ms=90, up_to_250ms=6, up_to_500ms=4)
    assert quantile(counts, 0.95) == pytest.approx(0.1 + 0.15 * 5 / 6)
    assert quantile(Counts(fetched=10, over_30s=10), 0.95) == 30
    assert quantile(Counts(), 0.95) is None


def test_fast_sites_are_distinguished():
    assert quantile(counted(*[0.004] * 20), 0.95) < 0.01
    assert 0.01 < quantile(counted(*[0.02] * 20), 0.95) <= 0.025
    assert 0.025 < quantile(counted(*[0.04] * 20), 0.5) <= 0.05
    assert 0.05 < quantile(counted(*[0.004] * 10, *[0.09] * 10), 0.95) <= 0.1


def test_each_response_is_in_one_bucket_and_fast_ones_in_a_part_of_it():
    counts = counted(0.001, 0.01, 0.02, 0.03, 0.07, 0.2, 40)
    assert (counts.up_to_100ms, counts.up_to_250ms, counts.over_30s) == (5, 1, 1)
    assert (counts.within_10ms, counts.within_25ms, counts.within_50ms) == (2, 3, 4)


def test_steps_of_an_earlier_version_are_one_bucket_up_to_100_ms():
    assert quantile(Counts(fetched=10, up_to_100ms=10), 0.5) == pytest.approx(0.05)


@pytest.mark.parametrize("part", [0.5, 0.95, 0.99])
def test_quantiles_lie_between_the_fastest_and_the_slowest_bucket(part):
    counts = counted(0.004, 0.02, 0.3, 0.8, 7)
    assert 0 < quantile(counts, 0.5) <= quantile(counts, part) <= 10
