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
from collections import deque
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


class Window(NamedTuple):
    """When a page may begin, on this machine's monotonic clock."""

    opens: float
    closes: float

    @property
    def missed(self) -> bool:
        return time.monotonic() > self.closes


class Starts:
    """Knows, by the server's clock, when the pages of a worker may begin.

    The clocks need not agree: the least difference between a claim's time there and its arrival here, lately, is taken for
    the difference of the clocks.
    """

    def __init__(self, delay: float, lease: float) -> None:
        self._moment = min(LONGEST, delay / SHARE)
        self._least_slack = min(SLACK, delay / LEAST_SLACK_SHARE) if delay else SLACK
        self._most_slack = min(MOST_SLACK, delay / MOST_SLACK_SHARE)
        self._lease = lease
        self._differences: deque[float] = deque(maxlen=REMEMBERED)
        self.slack = self._least_slack
        """To be claimed with: how many seconds more than its delay a host is left between two starts."""

    def windows(self, leases: list[Lease], slack: float) -> list[Window]:
        """Of leases that have just arrived, claimed with so much slack."""
        now = time.monotonic()
        if not leases or not self._moment:  # no delay but, perhaps, that of a host's own: it is not held to the moment
            return [Window(now, math.inf)] * len(leases)
        self._differences.append(now - self._claimed_at(leases[0]))
        behind = min(self._differences) + self._moment
        return [Window(at := self._claimed_at(lease) + behind, at + slack / 2) for lease in leases]

    def begun(self) -> None:
        """A page began in its window."""
        self.slack = max(self._least_slack, self.slack * CALM)

    def missed(self) -> None:
        """A page did not: this process is busier than was thought."""
        self.slack = min(self._most_slack, self.slack * 2)

    def _claimed_at(self, lease: Lease) -> float:
        return lease.expires - self._lease
