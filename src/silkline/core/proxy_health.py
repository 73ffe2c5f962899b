"""What the workers of a crawl find out about its proxies, and learn from each other. A proxy is named without its user and password."""

from __future__ import annotations

from typing import Literal, NamedTuple

ProxyEvent = Literal["", "check", "passed", "failed", "worked", "tier"]
"""``check``: the worker wants to check the proxy. ``passed``, ``failed``: how it did. ``worked``: it has fetched a page again. ``tier``: a host,
which is given instead of a proxy, blocks the tier before the one that *why* names."""
ProxyHealth = Literal["ready", "resting", "unknown"]
ProxyWord = Literal["ready", "resting", "check", "wait", "tier"]
"""``check``: the worker that asked must check the proxy. ``wait``: another worker checks it. ``tier``: a host, which is given instead of a
proxy, is fetched through the tier that *failures* is."""

RECENTLY = 15.0
"""Seconds in which a proxy has worked for one worker, so that a failure at another one alone proves nothing."""
KNOWN_FOR = 300.0
"""Seconds for which no worker needs to check a proxy that has worked."""
CHECK_LIMIT = 30.0
"""Seconds that a worker has for a check."""
TIER_LASTS = 3600.0
"""Seconds after which a host is fetched through the first tier of proxies again."""
MOST_TIERS = 9
MOST_COUNTED = 1_000
"""Fetches of a proxy above which its counts are halved, so that recent ones weigh more."""
LONGER = 4
"""The factor by which each rest of a proxy is longer than the one before."""
LONGEST_WHY = 200


class ProxyCounts(NamedTuple):
    """How fetches through a proxy ended."""

    fetched: int = 0
    """Responses."""
    failed: int = 0
    """Failures of the proxy."""
    blocked: int = 0
    """Responses with the status 403 or 429."""
    ms: int = 0
    """Time that all responses took."""


NO_COUNTS = ProxyCounts()


class ProxyReport(NamedTuple):
    """What a worker reports about a proxy."""

    proxy: str
    event: ProxyEvent = ""
    why: str = ""
    """Why it failed."""
    counts: ProxyCounts = NO_COUNTS
    """Fetches since the last report."""


class ProxyNews(NamedTuple):
    """What a worker learns about a proxy."""

    proxy: str
    word: ProxyWord
    seconds: float = 0.0
    """For how long it rests, or another worker may take to check it."""
    failures: int = 0
    """Failures in a row."""
    why: str = ""


class ProxyReply(NamedTuple):
    """The reply to the reports of a worker."""

    change: int
    """The number of the last change that the worker knows then."""
    news: list[ProxyNews]


class ProxyState(NamedTuple):
    """A proxy, as the workers of a crawl know it."""

    proxy: str
    """Its URL without user and password. Several with the same address have a number, as in ``http://proxy.example:8080#2``; those of
    later tiers have their tier."""
    state: ProxyHealth
    """``resting``: no page uses it. ``unknown``: it has rested or is new, and no worker has checked it."""
    rests_for: float
    """Seconds until it is checked again."""
    failures: int
    """Failures in a row."""
    why: str
    """Why it failed last."""
    fetched: int
    """Recent responses through it."""
    failed: int
    """Recent failures of it."""
    blocked: int
    """Recent responses with the status 403 or 429."""
    latency: float | None
    """Mean seconds of a recent response."""
    updated: float
    """Unix time of the last report."""

    @property
    def success(self) -> float | None:
        """The part of recent fetches in which the proxy did not fail; None without fetches."""
        return self.fetched / (self.fetched + self.failed) if self.fetched + self.failed else None
