"""Starts: when a page may begin, so that the web server sees no two of them closer together than its delay.

The frontier spaces the claims of a host exactly. But from a claim to the first byte at the web server it takes as long as
a busy process needs to get there, once 1 ms and once 30, and the gaps that the server sees shrink by the difference. So a
page begins in a window: not before a fixed moment after its claim, by which it is nearly always ready, and not so late that
it would use up the slack for which the frontier has left room. A page that misses its window is given back, and gets
another one.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from typing import NamedTuple

from silkline.core.lease import Lease

LONGEST = 0.1
"""Seconds that a page is held back at most."""
SHARE = 5
"""Nor is it held back for more than this part of the delay."""
SLACK, LEAST_SLACK_SHARE = 0.03, 10
"""Seconds of slack while all goes well, but no more than this part of the delay. Half of it is for us, half for the way."""
MOST_SLACK, MOST_SLACK_SHARE = 0.25, 2
CALM = 0.99
"""A missed window doubles the slack; each page that begins in time takes this part of it."""
REMEMBERED = 50
LATE_IN_A_ROW = 5
"""So many claims of a shard that were too late on arrival, one after the other: what was known of its clock holds no more."""


class Window(NamedTuple):
    """When a page may begin, on this machine's monotonic clock."""

    opens: float
    closes: float

    @property
    def missed(self) -> bool:
        return time.monotonic() > self.closes


class ServerClock:
    """How far a server's clock is from ours. They need not agree, and it may be set: every shard may have its own.

    The least difference between a claim's time there and its arrival here, lately, is taken for that of the clocks.
    """

    def __init__(self) -> None:
        self._differences: deque[float] = deque(maxlen=REMEMBERED)
        self._late = 0

    def difference(self, claimed_at: float, now: float, longest: float) -> float:
        """With a claim that arrives *now*, and has been too long on its way if it took more than *longest* seconds."""
        self._differences.append(now - claimed_at)
        least = min(self._differences)
        self._late = self._late + 1 if now > claimed_at + least + longest else 0
        if self._late < LATE_IN_A_ROW:
            return least
        # It was set back, or another server took over; if it is only us who are so busy, the promptest of these counts.
        while len(self._differences) > LATE_IN_A_ROW:
            self._differences.popleft()
        self._late = 0
        return min(self._differences)


class Starts:
    """Knows, by the clocks of the servers, when the pages of a worker may begin."""

    def __init__(self, delay: float, lease: float) -> None:
        self._moment = min(LONGEST, delay / SHARE)
        self._least_slack = min(SLACK, delay / LEAST_SLACK_SHARE) if delay else SLACK
        self._most_slack = min(MOST_SLACK, delay / MOST_SLACK_SHARE)
        self._lease = lease
        self._clocks: defaultdict[int, ServerClock] = defaultdict(ServerClock)
        self.slack = self._least_slack
        """To be claimed with: how many seconds more than its delay a host is left between two starts."""

    def windows(self, leases: list[Lease], slack: float) -> list[Window]:
        """Of leases that have just arrived, claimed with so much slack."""
        now = time.monotonic()
        if not leases or not self._moment:  # no delay but, perhaps, that of a host's own: it is not held to the moment
            return [Window(now, math.inf)] * len(leases)
        width, moment = slack / 2, self._moment
        behind = {
            shard: moment + self._clocks[shard].difference(self._claimed_at(lease), now, moment + width)
            for shard, lease in {lease.shard: lease for lease in leases}.items()
        }
        return [Window(at := self._claimed_at(lease) + behind[lease.shard], at + width) for lease in leases]

    def begun(self) -> None:
        """A page began in its window."""
        self.slack = max(self._least_slack, self.slack * CALM)

    def missed(self) -> None:
        """A page did not: this process is busier than was thought."""
        self.slack = min(self._most_slack, self.slack * 2)

    def _claimed_at(self, lease: Lease) -> float:
        return lease.expires - self._lease
