"""Tally: what a worker has done, in numbers. Workers send theirs to whoever shows them; sums are made there."""

from __future__ import annotations

from collections import Counter
from typing import Self

import msgspec

from silkline.core.timing import Timing

MOST_HOSTS = 2_000
"""Hosts whose times are kept; beyond that the quickest are forgotten."""


class HostTimes(msgspec.Struct):
    """How long the pages of one host took."""

    pages: int = 0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        return self.seconds / self.pages if self.pages else 0.0

    def add(self, other: HostTimes) -> Self:
        self.pages += other.pages
        self.seconds += other.seconds
        return self


class Tally(msgspec.Struct):
    """Counts since the worker began."""

    pages: int = 0
    """Pages whose handler ran to its end."""
    items: int = 0
    bytes: int = 0
    links: int = 0
    """Links that were new."""
    known: int = 0
    """Links that this worker knew to be in the frontier, and did not offer again."""
    ended: int = 0
    """Requests completed or buried."""
    redirects: int = 0
    robots_fetched: int = 0
    robots_denied: int = 0
    dropped: int = 0
    retried: int = 0
    buried: int = 0
    lost: int = 0
    """Leases that somebody else holds now; their pages are done by others."""
    postponed: int = 0
    """Pages that were put back, because the crawl was full and their links found no room."""
    missed: int = 0
    """Pages that could not begin in time for their host's pace, and were given back."""
    blocked_seconds: float = 0.0
    """How long handlers kept the event loop from anything else."""
    busy_seconds: float = 0.0
    """How long pages were under way, together."""
    latency: Timing = msgspec.field(default_factory=Timing)
    """How long answers took."""
    scripts: dict[str, Timing] = msgspec.field(default_factory=dict)
    """How long calls of the frontier took, by script."""
    statuses: Counter[int] = msgspec.field(default_factory=Counter)
    errors: Counter[str] = msgspec.field(default_factory=Counter)
    """Failed fetches by kind, and handlers by the name of their exception."""
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    """Links that were not followed, by reason."""
    hosts: dict[str, HostTimes] = msgspec.field(default_factory=dict)

    def fetched(self, host: str, status: int, size: int, seconds: float) -> None:
        """Note one answer."""
        self.statuses[status] += 1
        self.bytes += size
        self.latency.note(seconds)
        times = self.hosts.get(host)
        if times is None:
            if len(self.hosts) >= MOST_HOSTS:
                self._forget_quick()
            times = self.hosts[host] = HostTimes()
        times.pages += 1
        times.seconds += seconds

    def _forget_quick(self) -> None:
        slow = sorted(self.hosts.items(), key=lambda pair: pair[1].mean, reverse=True)
        self.hosts = dict(slow[: MOST_HOSTS // 2])

    @property
    def status_classes(self) -> Counter[int]:
        """Answers by the first digit of their status."""
        classes: Counter[int] = Counter()
        for status, count in self.statuses.items():
            classes[status // 100] += count
        return classes

    def add(self, other: Tally) -> Self:
        """Count in what another worker did."""
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, Counter):
                mine.update(theirs)
            elif isinstance(mine, dict):
                for key, one in theirs.items():
                    mine.setdefault(key, type(one)()).add(one)
            elif isinstance(mine, Timing):
                mine.add(theirs)
            else:
                setattr(self, name, mine + theirs)
        return self
