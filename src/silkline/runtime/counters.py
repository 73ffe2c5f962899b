"""Counters: what a worker has done, and what it reports of each host.

Workers report their counters to the process that started them, which adds them up. The statuses of hosts and the CPU time of their
pages go to the frontier with each heartbeat.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Self

import msgspec

from silkline.core.histogram import Histogram
from silkline.frontier.verbs.history import MOST_HANDLERS, OTHERS, HandlerCounts
from silkline.frontier.verbs.hosts import StatusCounts

MOST_TIMED_HOSTS = 2_000
"""Hosts whose times are kept. When there are more, the fastest ones are dropped."""


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


class Counters(msgspec.Struct):
    """Counts since the worker began."""

    pages: int = 0
    """Pages whose handler completed."""
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
    """Leases that another worker holds now."""
    postponed: int = 0
    """Pages that were put back, because the crawl was full and their links did not fit."""
    revisited: int = 0
    """Visits of pages that had been visited before."""
    not_modified: int = 0
    """Those to which the server replied 304."""
    unchanged: int = 0
    """Those whose handler was not called, because their content was as it was."""
    missed: int = 0
    """Pages that could not begin in time for their host's pace, and were given back."""
    given_back: Counter[str] = msgspec.field(default_factory=Counter)
    """Pages that this worker could not handle and gave back, by what they need."""
    blocked_seconds: float = 0.0
    """How long handlers kept the event loop from anything else."""
    busy_seconds: float = 0.0
    """Seconds that all pages were in progress, added up."""
    latency: Histogram = msgspec.field(default_factory=Histogram)
    """How long responses took."""
    scripts: dict[str, Histogram] = msgspec.field(default_factory=dict)
    """How long calls of the frontier took, by script."""
    statuses: Counter[int] = msgspec.field(default_factory=Counter)
    errors: Counter[str] = msgspec.field(default_factory=Counter)
    """Failed fetches by kind, and handlers by the name of their exception."""
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    """Links that were not followed, by reason."""
    hosts: dict[str, HostTimes] = msgspec.field(default_factory=dict)
    handlers: dict[str, HandlerCounts] = msgspec.field(default_factory=dict)

    def fetched(self, host: str, status: int, size: int, seconds: float) -> None:
        """Count one response."""
        self.statuses[status] += 1
        self.bytes += size
        self.latency.note(seconds)
        times = self.hosts.get(host)
        if times is None:
            if len(self.hosts) >= MOST_TIMED_HOSTS:
                self._drop_fastest()
            times = self.hosts[host] = HostTimes()
        times.pages += 1
        times.seconds += seconds

    def _drop_fastest(self) -> None:
        slow = sorted(self.hosts.items(), key=lambda pair: pair[1].mean, reverse=True)
        self.hosts = dict(slow[: MOST_TIMED_HOSTS // 2])

    @property
    def status_classes(self) -> Counter[int]:
        """Responses by the first digit of their status."""
        classes: Counter[int] = Counter()
        for status, count in self.statuses.items():
            classes[status // 100] += count
        return classes

    def add(self, other: Counters) -> Self:
        """Add the counters of another worker."""
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, Counter):
                mine.update(theirs)
            elif isinstance(mine, dict):
                for key, value in theirs.items():
                    mine.setdefault(key, type(value)()).add(value)
            elif isinstance(mine, Histogram):
                mine.add(theirs)
            else:
                setattr(self, name, mine + theirs)
        return self


def of_handler(handlers: dict[str, HandlerCounts], name: str) -> HandlerCounts:
    """Return the counts of a handler, to add to them. Further handlers than a crawl counts apart share theirs."""
    if name not in handlers and len(handlers) >= MOST_HANDLERS:
        name = OTHERS
    return handlers.setdefault(name, HandlerCounts())


# ── statuses and CPU time of hosts ──

COSTLY = 0.02
"""CPU seconds from which a page counts as costly. Ordinary pages take a tenth of it."""
MOST_REPORTED_HOSTS = 100
"""Hosts per report, so that a report stays cheap. In a broad crawl, the first ones since the last report are counted, and as
many more with costly pages."""
MOST_SPENT = 1_000
"""Hosts whose CPU time is kept until their next response."""


class HostStatuses:
    """The response statuses of a worker's pages, by host."""

    def __init__(self) -> None:
        self._hosts: dict[str, StatusCounts] = {}
        self._spent: dict[str, float] = {}

    def note(self, host: str, status: int | None) -> None:
        """Count one response of a host. The status is None if the fetch failed."""
        counts = self._hosts.get(host)
        if counts is None:
            most = MOST_REPORTED_HOSTS if self._spent.get(host, 0.0) < COSTLY else 2 * MOST_REPORTED_HOSTS
            if len(self._hosts) >= most:
                return
            counts = self._hosts[host] = StatusCounts()
        name = "failed" if status is None or not 200 <= status < 600 else f"status_{status // 100}xx"
        setattr(counts, name, getattr(counts, name) + 1)
        counts.last = status

    def spent(self, host: str, seconds: float) -> None:
        """Count the CPU seconds that a page of a host took. They are reported with its statuses."""
        self._spent[host] = self._spent.get(host, 0.0) + seconds

    def take(self) -> dict[str, StatusCounts]:
        """Return all counts, and start again from zero."""
        taken, self._hosts = self._hosts, {}
        for host, counts in taken.items():
            counts.cpu = self._spent.pop(host, 0.0)
        if len(self._spent) > MOST_SPENT:
            self._spent = dict(heapq.nlargest(MOST_SPENT, self._spent.items(), key=lambda item: item[1]))
        return taken
