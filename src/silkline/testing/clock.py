"""Clock: simulated time, and the clock of a crawl in memory."""

from __future__ import annotations

from dataclasses import dataclass

MOMENT = 1000


class Clock:
    """A manual clock for the *clock* argument of a frontier. Time advances only when `advance` is called.

    ::

        clock = Clock()
        frontier = await MemoryFrontier.open(crawl="books", clock=clock)
        clock.advance(10)
    """

    def __init__(self, now: int = 1_800_000_000_000) -> None:
        self.now = now
        """Unix time in milliseconds."""

    def __call__(self) -> int:
        return self.now

    @property
    def seconds(self) -> float:
        """Unix time in seconds, as in requests and leases."""
        return self.now / 1000

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.now += round(seconds * 1000)


@dataclass(slots=True)
class SteadyTime:
    """The clock of a crawl in memory. It never goes back: if the server's clock is set back, this one stays ahead of it by as much."""

    server: int = 0
    """Time of the server's clock, in milliseconds."""
    ahead: int = 0
    """Milliseconds by which this clock is ahead of the server's."""
    _kept_ahead: int = 0
    _kept: int = 0

    def read(self, server: int) -> int:
        """Return the time of the crawl."""
        self.server = server
        self.ahead = max(self._kept_ahead, self._kept - server)
        return server + self.ahead

    def keep(self, now: int, *, exactly: bool) -> None:
        """Store the time; the clock continues from there."""
        self._kept_ahead = self.ahead
        if exactly or now >= self._kept + MOMENT:
            self._kept = now

    @property
    def shift(self) -> int:
        """Milliseconds by which times shown to users are earlier than stored ones."""
        return self._kept_ahead
