"""Start windows: when a page may begin, so that the web server never sees two requests closer together than its delay.

The frontier spaces the claims of a host exactly. But the time from a claim to the first byte at the web server varies with the load
of the process, between 1 and 30 ms, and the gaps that the server sees shrink by the difference. So a page begins in a window: not
before a fixed moment after its claim, when it is nearly always ready, and not so late that it would use up the slack that the
frontier has left. A page that misses its window is released, and gets another one. A page that misses MOST_MISSED windows in a row,
while other pages of the worker begin in theirs, has failed an attempt, so that it is not released forever. If the other pages are
late as well, the worker is slow, and no page is blamed. While this is unknown, the page waits longer each time, so that other pages
of its host are tried.

The slack would cost a crawl up to a tenth of its pace. So a worker may report when its pages have started (`StartReports`), and the
frontier opens their hosts one delay after that. The next page of such a host starts one delay after the one before, even if its own
claim came a little late.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import OrderedDict, defaultdict, deque
from typing import NamedTuple, TypeVar

from silkline.core.lease import Lease
from silkline.core.retries import Backoff
from silkline.core.verdict import Bury, Release, RetryIn
from silkline.errors import SilklineError
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.claim import StartReport

log = logging.getLogger(__name__)

K = TypeVar("K")
T = TypeVar("T")

LONGEST = 0.1
"""The longest time in seconds for which a page is held back."""
SHARE = 5
"""A page is held back for at most a fifth of the delay."""
SLACK, LEAST_SLACK_SHARE = 0.03, 10
"""Seconds of slack while pages begin in time, but at most a tenth of the delay. Half of it is for this process, half for the network."""
REPORTED_SLACK, REPORTED_SLACK_SHARE = 0.1, 4
"""The same if starts are reported: slack that is not needed costs nothing then."""
MOST_SLACK, MOST_SLACK_SHARE = 0.25, 2
SLACK_DECAY = 0.99
"""A missed window doubles the slack; each page that begins in time takes this part of it."""
REMEMBERED = 50
MOST_MISSED = 30
"""Windows in a row that a page may miss before that counts as a failed attempt."""
MOST_LATE_PAGES = 10_000
MOST_BEGUN = 1_000
"""Pages that began in time while others were late: the last ones are kept."""
IN_TIME = 4
"""The worker is slow if fewer than one in four starts of the other pages was in time. By chance alone, a page would then miss 30
windows in a row once in 5,600 cases."""
MORE_MISSED, LONGEST_WAIT = 10, 60.0
"""While it is unknown whether the page is to blame, it waits after each further 10 missed windows, twice as long each time, at
most 60 seconds."""
WARN_EVERY = 60.0
ON_THE_WAY, ON_THE_WAY_SHARE = 0.005, 100
"""Seconds by which the time from a start to the web server may differ between two pages, but at most a hundredth of the delay. A
report leaves them to the host."""
WORTH_A_REPORT = 50
"""Slack is returned if it is more than a fiftieth of the delay."""
SAME_STARTER = 1.5
"""If a host is claimed again by the same worker within this many delays, no other worker can have claimed it in between."""
MOST_HOSTS = 10_000
CONNECTED = 10.0
"""Seconds after a response for which the connections to its host are considered open."""
LATE_IN_A_ROW = 5
"""Claims of a shard in a row that arrived too late. After them, the difference of the clocks is measured again."""


class StartWindow(NamedTuple):
    """When a page may begin, on this machine's monotonic clock."""

    opens: float
    closes: float
    planned: float = 0.0
    """A fixed moment after the claim. The window opens then, or earlier if this worker knows when the last page of the host started."""
    claimed: float = 0.0
    """When it was claimed, on the clock of its shard."""
    slack: float = 0.0

    @property
    def missed(self) -> bool:
        return time.monotonic() > self.closes


class ServerClock:
    """The difference between a shard's clock and the clock of this machine. Each shard may be on another server.

    The least recent difference between the time of a claim there and its arrival here counts as the difference of the clocks.
    When the server's clock is set back, the shard's clock continues from the last claim, so it misses the time since then. Then
    it is *ahead* of the server's clock by more than before, and the measured differences are dropped.
    """

    def __init__(self) -> None:
        self._differences: deque[float] = deque(maxlen=REMEMBERED)
        self._late = 0
        self._ahead = 0.0

    def difference(self, claimed_at: float, now: float, longest: float, ahead: float) -> float:
        """Add a claim that arrives *now*, and return the difference. A claim that took more than *longest* seconds is late."""
        if ahead != self._ahead:
            self._differences.clear()
            self._ahead = ahead
        self._differences.append(now - claimed_at)
        least = min(self._differences)
        self._late = self._late + 1 if now > claimed_at + least + longest else 0
        if self._late < LATE_IN_A_ROW:
            return least
        # A server that is behind has taken over. If only this process is busy, the fastest of these claims counts.
        while len(self._differences) > LATE_IN_A_ROW:
            self._differences.popleft()
        self._late = 0
        return min(self._differences)


def missed_verdict(
    lease: Lease, release: Release | None, backoff: Backoff, rng: random.Random
) -> Release | RetryIn | Bury:
    """The verdict on a page that missed its window: its *release* or, without one, a failed attempt."""
    if release is not None:
        return release
    reason = f"missed {MOST_MISSED} start windows in a row, while other pages began in time"
    log.warning("%s %s; this counts as a failed attempt", lease.url, reason)
    return backoff.decide(attempt=lease.attempt, reason=reason, rng=rng)


class LatePage(NamedTuple):
    """A page that has missed windows in a row."""

    host: str
    since: float
    missed: int


class StartedPage(NamedTuple):
    """A page that began in its window, and how many windows it had missed before."""

    host: str
    at: float
    missed: int


class HostConnections:
    """How many connections to a host are probably open, by the pages that had a response at the same time."""

    def __init__(self) -> None:
        self._pages: set[Lease] = set()
        self._open = 0
        self._responded = 0.0

    def use(self, lease: Lease) -> bool:
        """Add a page that is sent; returns whether an open connection is free for it."""
        if time.monotonic() - self._responded > CONNECTED:
            self._open = 0
        free = len(self._pages) < self._open
        self._pages.add(lease)
        return free

    def release(self, lease: Lease, *, responded: bool | None) -> None:
        if lease not in self._pages:
            return
        if responded:
            self._open = max(self._open, len(self._pages))
            self._responded = time.monotonic()
        elif responded is False:  # the connection, and perhaps the others, are closed
            self._open = 0
        self._pages.discard(lease)


class HostStart(NamedTuple):
    """The start of a page."""

    lease: Lease
    window: StartWindow
    at: float
    delay: float = 0.0
    """The delay of its host, in seconds."""


class Lateness:
    """Decides whether pages miss their windows because of the page or its host, or because the worker is slow."""

    def __init__(self) -> None:
        self._late: OrderedDict[tuple[int, str], LatePage] = OrderedDict()
        self._begun: deque[StartedPage] = deque(maxlen=MOST_BEGUN)
        self._blamed: OrderedDict[tuple[int, str], None] = OrderedDict()
        self._warned = -math.inf

    def begun(self, lease: Lease) -> None:
        if not self._late:
            return
        page = lease.shard, lease.url
        late = self._late.pop(page, None)
        self._begun.append(StartedPage(lease.host, time.monotonic(), late.missed if late else 0))
        self._blamed.pop(page, None)

    def missed(self, lease: Lease, delay: float) -> Release | None:
        """Count a missed window.

        Returns how the page is released; None if it missed too many in a row while other pages did not.
        """
        page, now = (lease.shard, lease.url), time.monotonic()
        late = self._late.pop(page, None) or LatePage(lease.host, now, 0)
        late = late._replace(missed=late.missed + 1)
        if late.missed >= MOST_MISSED and self._is_to_blame(page, late):
            _remember(self._blamed, page, None)
            return None
        _remember(self._late, page, late)
        waits, more = divmod(late.missed - MOST_MISSED, MORE_MISSED)
        if waits < 0 or more:
            return Release()
        self._warn(lease.url, now)
        return Release(min(LONGEST_WAIT, 2 * delay + 2.0 ** min(waits, 10)))

    def _is_to_blame(self, page: tuple[int, str], late: LatePage) -> bool:
        """Return whether other pages began in time since then: those of the same host, or those of other hosts."""
        begun, missed = [0, 0], [0, 0]
        for other in self._begun:
            if other.at >= late.since:
                begun[other.host == late.host] += 1
                missed[other.host == late.host] += other.missed
        for other_page, other_late in self._late.items():
            if other_page != page:
                missed[other_late.host == late.host] += other_late.missed
        if not any(begun) and not any(missed):
            return page in self._blamed  # there is no other page left to compare it with
        return any(
            began and began * IN_TIME >= began + were_late for began, were_late in zip(begun, missed, strict=True)
        )

    def _warn(self, url: str, now: float) -> None:
        if now - self._warned >= WARN_EVERY:
            self._warned = now
            log.warning(
                "pages cannot start in time: %s has missed %d start windows in a row, and no other page started on time. "
                "If this continues, this machine or its connection to Redis is too slow: start fewer workers, or lower --concurrency",
                url,
                MOST_MISSED,
            )


def _remember(known: OrderedDict[K, T], key: K, what: T, most: int = MOST_LATE_PAGES) -> None:
    known[key] = what
    known.move_to_end(key)
    if len(known) > most:
        known.popitem(last=False)


class StartWindows:
    """Decides, by the clocks of the servers, when the pages of a worker may begin.

    *reported* is whether the worker reports the starts of its pages with `StartReports`.
    """

    def __init__(self, delay: float, lease: float, *, reported: bool = False) -> None:
        self._lease = lease
        self._usual_slack = (REPORTED_SLACK, REPORTED_SLACK_SHARE) if reported else (SLACK, LEAST_SLACK_SHARE)
        self._clocks: defaultdict[int, ServerClock] = defaultdict(ServerClock)
        self._lateness = Lateness()
        self._last: OrderedDict[str, HostStart] = OrderedDict()
        """The last starts that the frontier knows of, by host."""
        self._connections: OrderedDict[str, HostConnections] = OrderedDict()
        self._delay = -1.0
        self.slack = 0.0
        """Seconds beyond its delay that a host is left between two starts: an argument of the next claim."""

        self.set_delay(delay)

    def set_delay(self, delay: float) -> None:
        """Set the crawl's current delay."""
        if delay == self._delay:
            return
        self._delay = delay
        self._last.clear()
        self._on_the_way = min(ON_THE_WAY, delay / ON_THE_WAY_SHARE)
        self._moment = min(LONGEST, delay / SHARE)
        most, share = self._usual_slack
        self._least_slack = min(most, delay / share) if delay else SLACK
        self._most_slack = min(MOST_SLACK, delay / MOST_SLACK_SHARE)
        self.slack = self._least_slack

    def windows(self, leases: list[Lease], slack: float) -> list[StartWindow]:
        """Return the windows of leases that have just arrived, and were claimed with this *slack*."""
        now = time.monotonic()
        if not leases or not self._moment:  # no delay, except perhaps for single hosts, whose pages are not held back
            return [StartWindow(now, math.inf)] * len(leases)
        moment = self._moment
        behind = {
            shard: moment
            + self._clocks[shard].difference(self._claimed_at(lease), now, moment + slack / 2, lease.ahead)
            for shard, lease in {lease.shard: lease for lease in leases}.items()
        }
        return [self._window(lease, behind[lease.shard], slack) for lease in leases]

    def _window(self, lease: Lease, behind: float, slack: float) -> StartWindow:
        claimed = self._claimed_at(lease)
        opens = planned = claimed + behind
        last = self._last.get(lease.host)
        if last is not None and planned - last.window.planned < SAME_STARTER * last.delay:
            opens = max(planned - self._moment, min(planned, last.at + last.delay + self._on_the_way))
        return StartWindow(opens, planned + slack / 2, planned, claimed, slack)

    def begun(self, lease: Lease | None = None) -> None:
        """Count a page that began in its window."""
        self.slack = max(self._least_slack, self.slack * SLACK_DECAY)
        if lease:
            self._lateness.begun(lease)

    def sending(self, lease: Lease) -> bool:
        """Note that a page is sent; returns whether a connection to its host is probably open and free.

        A page that opens a connection reaches the web server later than others, so its start must not be reported.
        """
        connections = self._connections.get(lease.host) or HostConnections()
        _remember(self._connections, lease.host, connections, MOST_HOSTS)
        return connections.use(lease)

    def ended(self, lease: Lease, *, responded: bool | None) -> None:
        """Note that a page that was sent has a response, or none; None if that is unknown."""
        connections = self._connections.get(lease.host)
        if connections is not None:
            connections.release(lease, responded=responded)

    def start_of(self, lease: Lease, window: StartWindow) -> HostStart | None:
        """Return the start of a page that was just sent; None if it is not worth a report."""
        now = time.monotonic()
        unused = window.slack - (now - window.planned)
        return HostStart(lease, window, now) if unused > self._delay / WORTH_A_REPORT else None

    def report(self, start: HostStart) -> StartReport:
        """Return a start as the frontier reads it."""
        used = start.at - start.window.planned + self._on_the_way
        return StartReport(start.lease, start.window.claimed, start.window.slack, used)

    def reported(self, start: HostStart, delay: float) -> None:
        """Note that the frontier opens the host one *delay* after this start."""
        _remember(self._last, start.lease.host, start._replace(delay=delay), MOST_HOSTS)

    def missed(self, lease: Lease | None = None) -> Release | None:
        """Count a page that missed its window, and increase the slack.

        Returns how the page is released; None if that counts as a failed attempt.
        """
        self.slack = min(self._most_slack, self.slack * 2)
        return self._lateness.missed(lease, self._delay) if lease else Release()

    def _claimed_at(self, lease: Lease) -> float:
        return lease.expires - self._lease


class StartReports:
    """Reports the starts of pages to the frontier. Everything runs on one event loop."""

    def __init__(self, starts: StartWindows) -> None:
        self._starts = starts
        self._waiting: list[HostStart] = []
        self._some = asyncio.Event()

    def add(self, start: HostStart) -> None:
        """Report a start soon."""
        self._waiting.append(start)
        self._some.set()

    async def run(self, frontier: Frontier) -> None:
        """Report until cancelled. A report that fails is dropped: its host waits for the slack."""
        while True:
            await self._some.wait()
            self._some.clear()
            batch, self._waiting = self._waiting, []
            try:
                delays = await frontier.internal.started([self._starts.report(start) for start in batch])
            except SilklineError:  # claims and settlements meet the same error, and report it
                continue
            for start in batch:
                if start.lease in delays:
                    self._starts.reported(start, delays[start.lease])
