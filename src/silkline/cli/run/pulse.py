"""The numbers that the display of a run shows."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

import msgspec

from silkline.frontier.admin_verbs.stats import Stats
from silkline.runtime.counters import Counters

WINDOW = 10.0
"""Seconds over which pages per second are averaged."""
FIRST_GUESS = 3.0
"""Seconds before the remaining time is first estimated."""
RECENTLY, RECENT_PART = 30.0, 0.1
"""A crawl still grows if it found a new URL within this many seconds, or within this share of the time since the run began."""


class RunSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the crawl and its workers at one moment."""

    stats: Stats
    counters: Counters
    in_flight: int
    elapsed: float
    rate: float | None
    """Recent number of completed requests per second."""
    left: float | None
    """Estimated seconds until the queue is empty at the current rate; None if unknown, or while the crawl grows."""
    growing: bool = False
    """Whether the crawl found new URLs recently, so that its end is unknown."""
    restarts: int = 0
    troubles: tuple[str, ...] = ()
    waiting_hosts: str = ""
    stopping: str = ""


class Estimate(NamedTuple):
    """The rate and the remaining seconds, if they are known, and whether the crawl grows."""

    rate: float | None
    left: float | None
    growing: bool


class Throughput:
    """Computes the rate and the remaining time from counts that are sampled periodically."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._looks: deque[tuple[float, int]] = deque()
        self._accepted: int | None = None
        self._grew: float | None = None

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def feel(self, stats: Stats, longest: float = 0.0) -> Estimate:
        """Return the rate and the remaining seconds, which are at least those of the *longest* host queue."""
        now = self.elapsed
        growing = self._is_growing(now, stats)
        self._looks.append((now, stats.done + stats.dead))
        while len(self._looks) > 2 and self._looks[1][0] < now - WINDOW:
            self._looks.popleft()
        (then, before), (_, after) = self._looks[0], self._looks[-1]
        if now - then < 0.5:
            return Estimate(None, None, growing)
        rate = max(0, after - before) / (now - then)
        waiting = stats.pending + stats.leased
        known = rate and now > FIRST_GUESS and not growing
        return Estimate(rate, max(waiting / rate, longest) if known else None, growing)

    def _is_growing(self, now: float, stats: Stats) -> bool:
        """Return whether URLs were found recently. At first, it is not known whether the pages have links."""
        if self._accepted is not None and stats.accepted > self._accepted:
            self._grew = now
        self._accepted = stats.accepted
        if self._grew is None:
            return now < FIRST_GUESS or not stats.done + stats.dead
        return now - self._grew < max(RECENTLY, RECENT_PART * now)


def clock(seconds: float) -> str:
    """Format a duration: 0:07, 12:40, 3:05:09."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def per_second(rate: float | None) -> str:
    if rate is None:
        return "–"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"
