"""The numbers that the display of a run shows."""

from __future__ import annotations

import time
from collections import deque

import msgspec

from silkline.frontier.verbs.stats import Stats
from silkline.runtime.counters import Counters

WINDOW = 10.0
"""Seconds over which pages per second are averaged."""
FIRST_GUESS = 3.0
"""Seconds before the remaining time is first estimated."""


class RunSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the crawl and its workers at one moment."""

    stats: Stats
    counters: Counters
    in_flight: int
    elapsed: float
    rate: float | None
    """Recent number of completed requests per second."""
    left: float | None
    """Estimated seconds until the queue is empty at the current rate, without new links; None if unknown."""
    restarts: int = 0
    troubles: tuple[str, ...] = ()
    waiting_hosts: str = ""
    stopping: str = ""


class Throughput:
    """Computes the rate and the remaining time from counts that are sampled periodically."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._looks: deque[tuple[float, int]] = deque()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def feel(self, stats: Stats, longest: float = 0.0) -> tuple[float | None, float | None]:
        """Return the rate and the remaining seconds, which are at least those of the *longest* host queue."""
        now = self.elapsed
        self._looks.append((now, stats.done + stats.dead))
        while len(self._looks) > 2 and self._looks[1][0] < now - WINDOW:
            self._looks.popleft()
        (then, before), (_, after) = self._looks[0], self._looks[-1]
        if now - then < 0.5:
            return None, None
        rate = max(0, after - before) / (now - then)
        waiting = stats.pending + stats.leased
        return rate, max(waiting / rate, longest) if rate and now > FIRST_GUESS else None


def clock(seconds: float) -> str:
    """Format a duration: 0:07, 12:40, 3:05:09."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def per_second(rate: float | None) -> str:
    if rate is None:
        return "–"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"
