"""CrawlSession: an open crawl with its connection, and a tally. `Frontier`, `CrawlAdmin` and `FrontierInternals` run on one."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from silkline.core.lease import Lease
from silkline.core.verdict import Bury, Complete, RetryIn, Verdict
from silkline.errors import SilklineError, UnknownCrawl
from silkline.frontier.admin_verbs import stats
from silkline.frontier.admin_verbs.stats import levels_of
from silkline.frontier.overflow import Overflow
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import Flow, ask
from silkline.frontier.transport.connection import AsyncConnection, drive
from silkline.frontier.verbs import lifecycle
from silkline.frontier.verbs.history import WAIT_BOUNDS, WAITS, Counts, add_history
from silkline.frontier.verbs.settle import Settlement

R = TypeVar("R")


REPORT_EVERY = 5.0
"""Seconds between two reports of a program, as of a worker."""


class Tally:
    """What one frontier has claimed and settled, for the history of its crawl.

    Workers of Silkline report their own counts, and add the waiting times of their claims. Any other program that claims and settles
    reports through its frontier.
    """

    def __init__(self) -> None:
        self.worker = False
        """Whether a worker uses the frontier, and reports what it does."""
        self.waits = Counts()
        """The waiting times of claimed requests."""
        self._counts = Counts()
        self._reported = Counts()
        self._next = time.monotonic() + REPORT_EVERY

    def claimed(self, leases: Sequence[Lease], lease_ms: int) -> None:
        """Count how long requests have waited that were claimed for the first time."""
        if leases:
            since = leases[0].expires - lease_ms / 1000  # shards that reply to one claim have about the same time
            firsts = [lease.created for lease in leases if lease.attempt == 1 and not lease.history]
            self._count_waits(Counter(firsts), since)

    def _count_waits(self, created: Mapping[float | None, int], now: float) -> None:
        """Count requests that are claimed *now*, given how many were enqueued at each time."""
        waits = self.waits
        for time_, requests in created.items():
            if time_ is not None:
                seconds = max(0.0, now - time_)
                name = WAITS[bisect_left(WAIT_BOUNDS, seconds)]
                setattr(waits, name, getattr(waits, name) + requests)
                waits.waited += requests
                waits.waited_ms += round(seconds * 1000) * requests

    def settled(self, pairs: Sequence[tuple[Lease, Verdict]], outcome: Settlement) -> None:
        """Count the leases that ended."""
        if self.worker:
            return
        counts = self._counts
        kinds = Counter([type(verdict) for _, verdict in pairs])  # fast: most calls have only pages that completed
        if outcome.lost or outcome.postponed:
            others = {*outcome.lost, *outcome.postponed}
            kinds = Counter([type(verdict) for lease, verdict in pairs if lease not in others])
            counts.lost += len(outcome.lost)
        counts.pages += kinds[Complete]
        counts.buried += kinds[Bury]
        counts.retried += kinds[RetryIn]
        counts.ended += kinds[Complete] + kinds[Bury]

    @property
    def is_due(self) -> bool:
        """Whether it is time for a report."""
        return not self.worker and time.monotonic() >= self._next

    def wake(self, deadline: float) -> float:
        """Return when a caller who waits until *deadline* must report."""
        return min(deadline, self._next) if deadline > self._next and not self.worker and self._news() else deadline

    def take(self) -> Counts | None:
        """Return what the crawl does not know yet; None if there is nothing. The next report is due later."""
        self._next = time.monotonic() + REPORT_EVERY
        return None if self.worker else self._news()

    def _news(self) -> Counts | None:
        news = Counts().add(self._counts).add(self.waits).minus(self._reported)
        return news if news != Counts() else None

    def reported(self, news: Counts) -> None:
        self._reported.add(news)


class CrawlSession:
    """What the three faces of an open crawl share. A change of settings replaces `layout` here, so that all of them see it."""

    def __init__(
        self,
        connection: AsyncConnection,
        layout: CrawlLayout,
        overflow: Overflow | None,
        clock: Callable[[], int] | None,
    ) -> None:
        self.connection = connection
        self.layout = layout
        self.overflow = overflow
        self._clock = clock
        self.tally = Tally()

    async def run(self, flow: Flow[R]) -> R:
        """Run a flow. If the server does not have the crawl, raise an error that says what happened to it."""
        try:
            return await drive(self.connection, flow)
        except UnknownCrawl:
            await drive(self.connection, lifecycle.diagnose(self.layout))
            raise

    async def report(self) -> None:
        """Add to the history what a program did that is no worker. If that fails, the next report has it."""
        if (news := self.tally.take()) is None:
            return
        with suppress(SilklineError):
            counted = await drive(self.connection, stats.stats(self.layout))
            await drive(self.connection, ask(add_history(self.layout.keys, news, levels_of(counted))))
            self.tally.reported(news)

    def now(self) -> float:
        """Return the time in seconds, by the clock that the frontier was opened with."""
        return time.time() if self._clock is None else self._clock() / 1000
