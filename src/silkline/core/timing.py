"""Timing: how long something took, as a sum and a histogram. Small, and sums of it are made by adding."""

from __future__ import annotations

from bisect import bisect_left
from typing import Self

import msgspec

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram in seconds: fine enough for a script, wide enough for a slow web site."""


def _no_counts() -> list[int]:
    return [0] * (len(BOUNDS) + 1)


class Timing(msgspec.Struct):
    """Durations of one kind of thing."""

    seconds: float = 0.0
    counts: list[int] = msgspec.field(default_factory=_no_counts)
    """How many took no longer than each of the `BOUNDS` (and longer than the one before); at the end, longer than all."""

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def mean(self) -> float:
        return self.seconds / self.count if self.count else 0.0

    def note(self, seconds: float) -> None:
        self.seconds += seconds
        self.counts[bisect_left(BOUNDS, seconds)] += 1

    def add(self, other: Timing) -> Self:
        self.seconds += other.seconds
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return self
