"""How a running crawl is doing, as numbers: what the display shows, without how."""

from __future__ import annotations

import time
from collections import deque

import msgspec

from silkline.frontier.inspection import Stats
from silkline.worker.tally import Tally

WINDOW = 10.0
"""Seconds over which pages per second are measured: long enough to be calm, short enough to be true."""
FIRST_GUESS = 3.0
"""Seconds before which nobody can say how long it will take."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the crawl and at the fleet."""

    stats: Stats
    tally: Tally
    in_flight: int
    elapsed: float
    rate: float | None
    """Requests completed a second, lately."""
    left: float | None
    """Seconds until nothing is left, if all goes on like this and no more is found; None when nobody can say."""
    restarts: int = 0
    troubles: tuple[str, ...] = ()
    waiting_hosts: str = ""
    stopping: str = ""


class Pulse:
    """Turns counts, looked at now and then, into a rate and a guess."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._looks: deque[tuple[float, int]] = deque()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def feel(self, stats: Stats, longest: float = 0.0) -> tuple[float | None, float | None]:
        """The rate, and how many seconds are left; not less than the *longest* host queue takes."""
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
    """As people say it: 0:07, 12:40, 3:05:09."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def in_bytes(size: float) -> str:
    """With a unit that leaves at most three digits before the point."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def per_second(rate: float | None) -> str:
    if rate is None:
        return "–"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"
