"""RobotsKeeper: may this URL be fetched? Asks this process first, then the fleet, and has robots.txt fetched once for all.

One request to a host is one claim of that host, and robots.txt is no exception. So the worker that finds it unknown
spends its claim on it and gives its lease back; the next claim finds it known::

    match await keeper.verdict(lease.url):
        case Allowed():
            ...  # fetch the page
        case Denied(reason):
            ...  # bury it: nothing will change
        case Unreachable(after, reason):
            ...  # retry it: robots.txt could not be read, and will be tried again then
        case Wait(after):
            ...  # release it: somebody else is fetching robots.txt
        case FetchFirst() as first:
            await keeper.fetch(first, get, attempt=lease.attempt)
            ...  # release it
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

from silkline.core.errors import FetchError, SilklineError
from silkline.core.lease import Lease
from silkline.core.robots import MAX_CRAWL_DELAY, Robots, read_robots
from silkline.core.robots_fetch import FRESH, RobotsFetch, ask_again_after
from silkline.core.url import parse
from silkline.frontier.frontier import DEFAULT_LOCK
from silkline.frontier.robots import origin_of
from silkline.frontier.robots_file import RobotsFile

WAIT = 1.0
"""Seconds after which a page is looked at again whose robots.txt somebody else is fetching."""

SOONEST = 1.0
"""Seconds for which an unreachable robots.txt is not asked for again, at least."""

LARGE = 32 * 1024
"""A text of so many bytes is read in a thread: the largest take some tenths of a second."""


class Allowed(NamedTuple):
    """The page may be fetched."""


class Denied(NamedTuple):
    """The site does not want the page fetched."""

    reason: str


class Unreachable(NamedTuple):
    """Nobody knows what the site wants; it will be asked again after so many seconds."""

    after: float
    reason: str


class Wait(NamedTuple):
    """Somebody else is fetching robots.txt; look again after so many seconds."""

    after: float


class FetchFirst(NamedTuple):
    """It is ours to fetch robots.txt, with the claim of this page."""

    origin: str
    older: bytes | None
    """The copy that holds if it cannot be fetched."""


class Answer(NamedTuple):
    """What came back for a URL: the fetcher's response, as far as robots.txt needs it."""

    status: int
    body: bytes = b""
    location: str | None = None


Verdict = Allowed | Denied | Unreachable | Wait | FetchFirst
ALLOWED = Allowed()
DENIED = Denied("robots.txt does not allow it")
UNREACHABLE = "robots.txt cannot be read"


class Fleet(Protocol):
    """What is asked of the frontier."""

    async def robots(self, url: str, *, lock: float = ..., lease: Lease | None = ...) -> RobotsFile: ...

    async def keep_robots(
        self, url: str, text: bytes | None, *, fresh: float = ..., crawl_delay: float | None = ...
    ) -> bool: ...


class RobotsCache:
    """What this process knows of origins: those used last, not too many, and not too many rules in all."""

    def __init__(self, most: int = 10_000, heaviest: int = 100_000) -> None:
        self._most = most
        self._heaviest = heaviest
        self._weight = 0
        self._known: OrderedDict[str, Robots] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, origin: str, now: float) -> Robots | None:
        """The rules of an origin, unless they are unknown or have expired."""
        robots = self._known.get(origin)
        if robots is None:
            return None
        if robots.expires <= now:
            self._drop(origin)
            return None
        self._known.move_to_end(origin)
        return robots

    def put(self, origin: str, robots: Robots) -> None:
        self._drop(origin)
        self._known[origin] = robots
        self._weight += robots.weight
        while len(self._known) > self._most or (self._weight > self._heaviest and len(self._known) > 1):
            self._drop(next(iter(self._known)))

    def _drop(self, origin: str) -> None:
        if origin in self._known:
            self._weight -= self._known.pop(origin).weight


class RobotsKeeper:
    """Decides by robots.txt, for one user agent. A page whose robots.txt is known costs a look-up and a match."""

    def __init__(
        self,
        frontier: Fleet,
        user_agent: str,
        *,
        fresh: float = FRESH,
        lock: float = DEFAULT_LOCK,
        max_crawl_delay: float = MAX_CRAWL_DELAY,
        clock: Callable[[], float] = time.monotonic,
        cache: RobotsCache | None = None,
    ) -> None:
        self._frontier = frontier
        self._user_agent = user_agent
        self._fresh = fresh
        self._lock = lock
        self._max_crawl_delay = max_crawl_delay
        self._clock = clock
        self._cache = RobotsCache() if cache is None else cache

    async def verdict(self, url: str, lease: Lease | None = None) -> Verdict:
        """Whether *url* may be fetched now, or what to do first; if that is robots.txt, with the *lease* of the page."""
        known = self._known(url)
        if known is None:
            origin = origin_of(parse(url))
            file = await self._frontier.robots(url, lock=self._lock, lease=lease)
            if file.state == "yours":
                return FetchFirst(origin, file.text)
            if file.state == "fetching" and file.text is None:
                return Wait(min(file.lasts, WAIT))
            # while somebody fetches it anew, the older copy holds
            known = await self._learn(origin, file.text, file.lasts)
        if not known.reachable:
            return Unreachable(max(0.0, known.expires - self._clock()), UNREACHABLE)
        return ALLOWED if known.allows(url) else DENIED

    def sitemaps(self, url: str) -> tuple[str, ...]:
        """The sitemaps that robots.txt names, of an origin whose verdict was asked."""
        known = self._known(url)
        return known.sitemaps if known else ()

    async def fetch(
        self,
        first: FetchFirst,
        get: Callable[[str], Awaitable[Answer]],
        *,
        attempt: int = 1,
        again: Callable[[FetchError], float | None] | None = None,
    ) -> None:
        """Fetch robots.txt with *get*, hop by hop, and keep what came of it for the fleet.

        *get* answers a URL or raises; it must cut a body that is too long, not refuse it. *attempt* is that of the page
        whose claim is spent. What *get* raises is passed on, once the fleet knows that there is no robots.txt to be had for
        now; *again* may say after how many seconds a host that gave no answer is asked once more. Cancelled on the way, it is
        somebody else's to fetch.
        """
        fetch = RobotsFetch(first.origin)
        try:
            while fetch.url:
                fetch.answered(*await get(fetch.url))
        except asyncio.CancelledError:
            with suppress(SilklineError):  # then it is when the lock ends
                await self.give_back(first)
            raise
        except Exception as error:
            fetch.failed(str(error))
            later = again(error) if again and isinstance(error, FetchError) else None
            await self.keep(first, fetch.text, attempt=attempt, again=later)
            raise
        await self.keep(first, fetch.text, attempt=attempt)

    async def give_back(self, first: FetchFirst) -> None:
        """It was not fetched after all: whoever asks next is to."""
        robots = await self._learn(first.origin, first.older, 0.0)
        await self._frontier.keep_robots(first.origin + "/", first.older, fresh=0.0, crawl_delay=robots.crawl_delay)

    async def keep(
        self, first: FetchFirst, text: bytes | None, *, attempt: int = 1, again: float | None = None
    ) -> None:
        """Keep what came of a fetch, for this process and for the fleet; *text* is None where it is unreachable.

        Then it is asked for again after *again* seconds, by default the longer the more attempts there were.
        """
        fresh = self._fresh
        if text is None:
            text, fresh = first.older, ask_again_after(attempt) if again is None else max(again, SOONEST)
        robots = await self._learn(first.origin, text, fresh)
        await self._frontier.keep_robots(first.origin + "/", text, fresh=fresh, crawl_delay=robots.crawl_delay)

    def _known(self, url: str) -> Robots | None:
        """What this process knows of the URL's origin. URLs of leases begin with their origin, and need no parsing."""
        end = url.find("/", len("http://_"))
        known = self._cache.get(url[:end], self._clock()) if end > 0 else None
        return known or self._cache.get(origin_of(parse(url)), self._clock())

    async def _learn(self, origin: str, text: bytes | None, lasts: float) -> Robots:
        """Put what the fleet knows into this process's cache."""
        expires = self._clock() + lasts
        if text is None:
            robots = Robots(reachable=False, expires=expires)
        elif len(text) > LARGE:
            robots = await asyncio.to_thread(self._read, text, expires)
        else:
            robots = self._read(text, expires)
        self._cache.put(origin, robots)
        return robots

    def _read(self, text: bytes, expires: float) -> Robots:
        return read_robots(text, self._user_agent, expires=expires, max_crawl_delay=self._max_crawl_delay)
