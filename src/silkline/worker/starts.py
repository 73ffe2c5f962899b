"""Starts: every page of a host begins a fixed moment after its claim, so that the web server sees even gaps.

The frontier spaces the claims of a host exactly. But from a claim to the first byte at the web server it takes as long as
a busy process needs to get there, once 1 ms and once 30, and the gaps that the server sees shrink by the difference. So a
worker holds a page back until a moment after its claim by which it is nearly always ready. Nothing is lost by it: claims
go on meanwhile.
"""

from __future__ import annotations

import time
from collections import deque

from silkline.core.lease import Lease

LONGEST = 0.1
"""Seconds that a page is held back at most."""
SHARE = 5
"""Nor is it held back for more than this part of the host's delay."""
REMEMBERED = 50


class Starts:
    """Knows, by the server's clock, how late this worker is with a lease.

    The clocks need not agree: the least difference between a claim's time there and its arrival here, lately, is taken for
    the difference of the clocks.
    """

    def __init__(self, delay: float, lease: float) -> None:
        self._moment = min(LONGEST, delay / SHARE)
        self._lease = lease
        self._differences: deque[float] = deque(maxlen=REMEMBERED)
        self._least = 0.0

    def claimed(self, leases: list[Lease]) -> None:
        """Take note of leases that have just arrived."""
        if leases and self._moment:
            self._differences.append(time.time() - self._claimed_at(leases[0]))
            self._least = min(self._differences)

    def wait_for(self, lease: Lease) -> float:
        """Seconds until this page should begin; 0 or less when it should have."""
        if not self._moment:
            return 0.0
        late = time.time() - self._claimed_at(lease) - self._least
        return self._moment - late

    def _claimed_at(self, lease: Lease) -> float:
        return lease.expires - self._lease
