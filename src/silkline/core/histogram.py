"""Histogram of durations. Histograms can be added."""

from __future__ import annotations

from bisect import bisect_left
from typing import Self

import msgspec

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram in seconds: fine enough for a script, wide enough for a slow web site."""


def _no_counts() -> list[int]:
    return [0] * (len(BOUNDS) + 1)


class Histogram(msgspec.Struct):
    """The durations of one kind of operation."""

    seconds: float = 0.0
    counts: list[int] = msgspec.field(default_factory=_no_counts)
    """Operations per bucket: those that took at most each of the `BOUNDS`, and more than the one before; last, those above all."""

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def mean(self) -> float:
        return self.seconds / self.count if self.count else 0.0

    def note(self, seconds: float) -> None:
        self.seconds += seconds
        self.counts[bisect_left(BOUNDS, seconds)] += 1

    def quantile(self, part: float) -> float | None:
        """Return a quantile in seconds, interpolated within its bucket; None without operations.

        One above all of the `BOUNDS` is the last of them.
        """
        lower, before, wanted = 0.0, 0, part * self.count
        for upper, count in zip(BOUNDS, self.counts, strict=False):
            if count and before + count >= wanted:
                return lower + (upper - lower) * (wanted - before) / count
            lower, before = upper, before + count
        return BOUNDS[-1] if self.count else None

    def add(self, other: Histogram) -> Self:
        self.seconds += other.seconds
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return self
