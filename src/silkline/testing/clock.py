"""Clock: simulated time."""

from __future__ import annotations


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
