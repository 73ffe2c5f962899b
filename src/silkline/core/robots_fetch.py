"""Fetching robots.txt without I/O: takes each response, and returns what to fetch next, and the result.

What RFC 9309 requires, and where Silkline is more careful:

- 2xx is read.
- 3xx is followed five times, to any host. One more redirect, or an invalid one, counts as no robots.txt.
- 4xx is no robots.txt: everything is allowed. Except 429, which says that the crawl is too fast, and counts as 5xx.
- 5xx, or no response at all, is *unreachable*: nothing is allowed until robots.txt can be read. An older copy continues to
  apply. The RFC lets a crawler continue without one after 30 days. Silkline does not: pages are buried long before, and can be
  revived.
"""

from __future__ import annotations

from urllib.parse import urljoin

from silkline.core.robots import cut
from silkline.core.url import parse
from silkline.errors import RequestError

MAX_REDIRECTS = 5
FRESH = 86_400.0
"""Seconds for which a robots.txt is valid: a day, the maximum that RFC 9309 recommends."""

AGAIN_FIRST, AGAIN_LAST = 30.0, 3600.0


class RobotsFetch:
    """Fetches one robots.txt without I/O: fetch `url`, pass each response to `answered` or `failed`, until `url` is None."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.url: str | None = f"{origin}/robots.txt"
        """The URL to fetch next; None if nothing is left to fetch."""
        self.text: bytes | None = None
        """The file; empty if the site has none, None if it is unreachable."""
        self.reason = "not fetched"
        """Why it is unreachable."""
        self._redirects = 0

    def answered(self, status: int, body: bytes = b"", location: str | None = None) -> None:
        """Take a response with *status*; *location* is the target of a redirect."""
        at, self.url = self.url, None
        if 300 <= status < 400:
            self._follow(at or self.origin, location)
        elif says_nothing(status):
            self.failed(f"HTTP {status}")
        else:
            self.text = cut(body) if status < 300 else b""

    def failed(self, reason: str) -> None:
        """Record that there was no response."""
        self.url, self.text, self.reason = None, None, reason

    def _follow(self, at: str, location: str | None) -> None:
        self._redirects += 1
        self.text = b""  # if it leads nowhere
        if location and self._redirects <= MAX_REDIRECTS:
            try:
                self.url = parse(urljoin(at, location)).url
            except (RequestError, ValueError):
                return
            self.text = None


def says_nothing(status: int) -> bool:
    """Return whether a status says neither what robots.txt is nor that there is none."""
    return status == 429 or not 200 <= status < 500


def ask_again_after(attempt: int) -> float:
    """Return the seconds for which a robots.txt counts as unreachable, if a page is at its *attempt* (1 is the first).

    It grows with the attempts of the page: 30 s, 1, 2, 4 minutes and so on up to an hour. So an
    outage of some minutes costs no page, a host that is gone is given up like any other, and the fleet needs no memory
    of failures.
    """
    return min(AGAIN_FIRST * 2.0 ** min(attempt - 1, 60), AGAIN_LAST)
