"""Fetching a robots.txt, as a value: it is told each answer, and tells what to fetch next and what came of it.

What RFC 9309 says of answers, and where we are more careful:

- 2xx is read.
- 3xx is followed, five times, wherever it leads; one more, or one that leads nowhere, counts as no robots.txt.
- 4xx is no robots.txt: everything is allowed. But 429 is not: it says that we are too fast, so it counts as 5xx.
- 5xx, and no answer at all, is *unreachable*: nothing is allowed until it can be read. An older copy goes on to hold. The
  RFC lets a crawler go on without one after 30 days. We do not: pages are buried long before, and can be revived.
"""

from __future__ import annotations

from urllib.parse import urljoin

from silkline.core.errors import RequestError
from silkline.core.robots import cut
from silkline.core.url import parse

MAX_HOPS = 5
FRESH = 86_400.0
"""Seconds for which a robots.txt holds: a day, the most that RFC 9309 recommends."""

AGAIN_FIRST, AGAIN_LAST = 30.0, 3600.0


class RobotsFetch:
    """One robots.txt being fetched: begin with `url`, hand each answer to `answered` or `failed`, until `url` is None."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.url: str | None = f"{origin}/robots.txt"
        """What to fetch next; None when nothing is left to fetch."""
        self.text: bytes | None = None
        """The file; empty where there is none; None where it is unreachable."""
        self.reason = "not fetched"
        """Why it is unreachable."""
        self._hops = 0

    def answered(self, status: int, body: bytes = b"", location: str | None = None) -> None:
        """The server answered with *status*; *location* is where a redirect leads."""
        at, self.url = self.url, None
        if 300 <= status < 400:
            self._follow(at or self.origin, location)
        elif says_nothing(status):
            self.failed(f"HTTP {status}")
        else:
            self.text = cut(body) if status < 300 else b""

    def failed(self, reason: str) -> None:
        """No answer came."""
        self.url, self.text, self.reason = None, None, reason

    def _follow(self, at: str, location: str | None) -> None:
        self._hops += 1
        self.text = b""  # if it leads nowhere
        if location and self._hops <= MAX_HOPS:
            try:
                self.url = parse(urljoin(at, location)).url
            except (RequestError, ValueError):
                return
            self.text = None


def says_nothing(status: int) -> bool:
    """Whether a status tells neither what robots.txt is nor that there is none."""
    return status == 429 or not 200 <= status < 500


def ask_again_after(attempt: int) -> float:
    """For how many seconds a robots.txt counts as unreachable, when a page is at its *attempt* (1 is the first).

    It grows with the attempts of the page for which it was sought: 30 s, 1, 2, 4 minutes and so on up to an hour. So an
    outage of some minutes costs no page, a host that is gone is given up like any other, and the fleet needs no memory
    of failures.
    """
    return min(AGAIN_FIRST * 2.0 ** min(attempt - 1, 60), AGAIN_LAST)
