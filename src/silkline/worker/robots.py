"""robots.txt: no page is fetched that it forbids. One worker fetches it for the whole fleet, with the claim of a page.

`RobotsGate` is called before each fetch and returns the verdict on a page that must not be fetched now. `RobotsChecker` decides by
the rules, which it caches. One request to a host is one claim of that host, also for robots.txt. So a worker that finds it unknown
uses its claim to fetch it, and releases its lease; at the next claim, it is known::

    match await checker.verdict(lease.url):
        case Allowed():
            ...  # fetch the page
        case Denied(reason):
            ...  # bury it: nothing will change
        case Unreachable(after, reason):
            ...  # retry it: robots.txt could not be read, and will be tried again then
        case Wait(after):
            ...  # release it: another worker is fetching robots.txt
        case FetchFirst() as first:
            await checker.fetch(first, get, attempt=lease.attempt)
            ...  # release it

`RedirectPacer` follows the redirects of robots.txt. A redirect is a further request, to the same host or to another one, which the
frontier has not spaced. So each hop begins a delay after the response to the one before it on its host, and a host's robots.txt
counts as fetched only a delay after its last hop: no page of it is fetched meanwhile. On other hosts the hops of this worker are
spaced among themselves, and if many origins redirect to one file, it is fetched once.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.retries import Retries
from silkline.core.robots import MAX_BYTES, MAX_CRAWL_DELAY, Robots, read_robots
from silkline.core.robots_fetch import FRESH, MAX_REDIRECTS, RobotsFetch, ask_again_after, says_nothing
from silkline.core.url import parse
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.errors import FetchError, LocalFailure, SilklineError
from silkline.fetch.fetcher import Fetcher
from silkline.frontier.frontier import DEFAULT_LOCK
from silkline.frontier.verbs.robots import RobotsFile, origin_of
from silkline.runtime.counters import Counters, HostStatuses

log = logging.getLogger(__name__)

# ── the gate ──


class RobotsGate:
    """Checks robots.txt before each fetch."""

    def __init__(
        self, checker: RobotsChecker, pacer: RedirectPacer, retries: Retries, counters: Counters, statuses: HostStatuses
    ) -> None:
        self._checker = checker
        self._pacer = pacer
        self._retries = retries
        self._counters = counters
        self._statuses = statuses
        self._rng = random.Random()

    async def check(self, lease: Lease, missed: Callable[[], Verdict | None]) -> Verdict | None:
        """Return the verdict on a page that must not be fetched now; None if it may be fetched.

        *missed* returns a verdict if it is too late to begin anything with the claim of the page.
        """
        robots = await self._checker.verdict(lease.url, lease)
        match robots:
            case Allowed():
                return None
            case FetchFirst():
                return await self._too_late(robots, missed) or await self._fetch(robots, lease)
            case Wait(after):
                return Release(after)
            case Denied(reason):
                return self._denied(lease, reason)
            case Unreachable(after, reason):
                return self._unreachable(lease, after, reason)

    def _denied(self, lease: Lease, reason: str) -> Verdict:
        """Bury a start URL that robots.txt forbids, so that the operator sees it; complete other pages."""
        self._counters.robots_denied += 1
        return Bury(reason) if lease.request.depth == 0 else Complete()

    def _unreachable(self, lease: Lease, after: float, reason: str) -> Verdict:
        self._counters.errors["dns" if reason.startswith("dns: ") else "robots.txt"] += 1
        backoff = self._retries.for_request(lease.request).backoff
        verdict = backoff.decide(attempt=lease.attempt, reason=reason, rng=self._rng)
        return RetryIn(after, reason) if isinstance(verdict, RetryIn) else verdict

    async def _too_late(self, first: FetchFirst, missed: Callable[[], Verdict | None]) -> Verdict | None:
        """Return a verdict if the window of the claim has closed: then another worker fetches robots.txt."""
        verdict = missed()
        if verdict:
            await self._checker.give_back(first)
        return verdict

    async def _fetch(self, first: FetchFirst, lease: Lease) -> Verdict:
        """Fetch robots.txt, and release the page. If the host does not reply, it is tried again as a page of it would be.

        A robots.txt that cannot be fetched counts among the statuses of its host, because nothing else is fetched from it then.
        """
        self._counters.robots_fetched += 1

        follow = self._pacer.trail()

        async def get(url: str) -> RobotsResponse:
            try:
                response = await follow(url)
            except FetchError:
                self._statuses.note(lease.host, None)
                raise
            if says_nothing(response.status):
                self._statuses.note(lease.host, response.status)
            return response

        def again(error: FetchError) -> float:
            retries = self._retries.for_request(lease.request)
            verdict = retries.after_error(error, attempt=lease.attempt, rng=self._rng)
            return verdict.after if isinstance(verdict, RetryIn) else 0.0

        await self._checker.fetch(first, get, attempt=lease.attempt, again=again)
        return Release()


def getter(fetcher: Fetcher, user_agent: str) -> Get:
    """Return a function that fetches a URL for robots.txt; a body that is too long is cut."""

    async def get(url: str) -> RobotsResponse:
        response = await fetcher.fetch(Request(url), user_agent=user_agent, cut=MAX_BYTES)
        return RobotsResponse(response.status, response.body, response.headers.get("location"))

    return get


# ── rules ──

WAIT = 1.0
"""Seconds after which a page is tried again while another worker fetches its robots.txt."""

SOONEST = 1.0
"""The least seconds before an unreachable robots.txt is fetched again."""

LARGE = 32 * 1024
"""A file of this many bytes or more is parsed in a thread: the largest take some tenths of a second."""


BUDGET, MOST_OVERRUNS = 0.05, 2
"""CPU seconds that matching one URL may take, and how often it may take longer before its origin is no longer crawled, until
its robots.txt is fetched again."""


class Allowed(NamedTuple):
    """The page may be fetched."""


class Denied(NamedTuple):
    """robots.txt forbids the page."""

    reason: str


class Unreachable(NamedTuple):
    """The rules of the site are unknown; robots.txt is fetched again after *after* seconds."""

    after: float
    reason: str


class Wait(NamedTuple):
    """Another worker is fetching robots.txt; try again after *after* seconds."""

    after: float


class FetchFirst(NamedTuple):
    """This worker must fetch robots.txt first, with the claim of this page."""

    origin: str
    older: bytes | None
    """The copy that applies if it cannot be fetched."""


class RobotsResponse(NamedTuple):
    """The parts of a fetcher's response that robots.txt needs."""

    status: int
    body: bytes = b""
    location: str | None = None


RobotsVerdict = Allowed | Denied | Unreachable | Wait | FetchFirst
ALLOWED = Allowed()
DENIED = Denied("robots.txt does not allow it")
TOO_COSTLY = Denied("robots.txt has too many or too long rules: matching this URL would take too long")
OVERRUN = Denied("robots.txt of this site takes too long to match, so none of its pages are fetched")
UNREACHABLE = "robots.txt cannot be read"


class RobotsStore(Protocol):
    """The methods of the frontier that are used here."""

    async def robots(self, url: str, *, lock: float = ..., lease: Lease | None = ...) -> RobotsFile: ...

    async def keep_robots(
        self, url: str, text: bytes | None, *, fresh: float = ..., crawl_delay: float | None = ..., reason: str = ...
    ) -> bool: ...


class RobotsCache:
    """The rules of the origins that this process used last, with a limit for origins and for rules in total."""

    def __init__(self, most: int = 10_000, heaviest: int = 100_000) -> None:
        self._most = most
        self._heaviest = heaviest
        self._weight = 0
        self._known: OrderedDict[str, Robots] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, origin: str, now: float) -> Robots | None:
        """Return the rules of an origin; None if they are unknown or have expired."""
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


class RobotsChecker:
    """Decides by robots.txt, for one user agent. If robots.txt is known, that costs a look-up and a match."""

    def __init__(
        self,
        frontier: RobotsStore,
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
        self.timer: Callable[[], float] = time.thread_time
        """Measures what matching takes."""

    async def verdict(self, url: str, lease: Lease | None = None) -> RobotsVerdict:
        """Return whether *url* may be fetched now, or what must be done first. The *lease* of the page is used to fetch robots.txt."""
        known = self._known(url)
        if known is None:
            origin = origin_of(parse(url))
            file = await self._frontier.robots(url, lock=self._lock, lease=lease)
            if file.state == "yours":
                return FetchFirst(origin, file.text)
            if file.state == "fetching" and file.text is None:
                return Wait(min(file.lasts, WAIT))
            # while another worker fetches it again, the older copy applies
            known = await self._learn(origin, file.text, file.lasts, file.reason)
        if not known.reachable:
            return Unreachable(max(0.0, known.expires - self._clock()), known.reason or UNREACHABLE)
        return self._match(known, url)

    def _match(self, known: Robots, url: str) -> Allowed | Denied:
        """Return what the rules say. Matching is estimated to be quick; if it is not, the origin is no longer crawled."""
        if known.overruns >= MOST_OVERRUNS:
            return OVERRUN
        began = self.timer()
        allowed = known.match(url)
        took = self.timer() - began
        if took > BUDGET:
            known.overruns += 1
            log.warning("matching %s against robots.txt took %.2f s of CPU time", url, took)
        if allowed is None:
            return TOO_COSTLY
        return ALLOWED if allowed else DENIED

    def sitemaps(self, url: str) -> tuple[str, ...]:
        """Return the sitemaps in the robots.txt of a URL's origin, if `verdict` has read it."""
        known = self._known(url)
        return known.sitemaps if known else ()

    async def fetch(
        self,
        first: FetchFirst,
        get: Callable[[str], Awaitable[RobotsResponse]],
        *,
        attempt: int = 1,
        again: Callable[[FetchError], float | None] | None = None,
    ) -> None:
        """Fetch robots.txt with *get*, redirect by redirect, and store the result for the fleet.

        *get* returns the response for a URL or raises; it must cut a body that is too long. *attempt* is that of the page whose
        claim is used. An exception of *get* is stored as an unreachable robots.txt, and then raised; *again* may return the
        seconds after which the host is tried again. If this task is cancelled, or this machine is short of a resource, another
        worker fetches it.
        """
        fetch = RobotsFetch(first.origin)
        try:
            while fetch.url:
                fetch.answered(*await get(fetch.url))
        except asyncio.CancelledError:
            with suppress(SilklineError):  # then another worker fetches it when the lock expires
                await self.give_back(first)
            raise
        except LocalFailure:
            await self.give_back(first)
            raise
        except Exception as error:
            fetch.failed(str(error))
            later = again(error) if again and isinstance(error, FetchError) else None
            await self.keep(first, fetch.text, attempt=attempt, again=later, reason=reason_of(error))
            raise
        await self.keep(first, fetch.text, attempt=attempt, reason=f"{UNREACHABLE}: {fetch.reason}")

    async def give_back(self, first: FetchFirst) -> None:
        """Give up fetching: the next worker that needs robots.txt fetches it."""
        robots = await self._learn(first.origin, first.older, 0.0)
        await self._frontier.keep_robots(first.origin + "/", first.older, fresh=0.0, crawl_delay=robots.crawl_delay)

    async def keep(
        self,
        first: FetchFirst,
        text: bytes | None,
        *,
        attempt: int = 1,
        again: float | None = None,
        reason: str = UNREACHABLE,
    ) -> None:
        """Store the result of a fetch, for this process and for the fleet; *text* is None if robots.txt is unreachable.

        Then it is fetched again after *again* seconds, by default later with each attempt, and pages that wait for it get the
        *reason*.
        """
        fresh = self._fresh
        if text is None:
            text, fresh = first.older, ask_again_after(attempt) if again is None else max(again, SOONEST)
        robots = await self._learn(first.origin, text, fresh, reason)
        delay = robots.crawl_delay
        await self._frontier.keep_robots(first.origin + "/", text, fresh=fresh, crawl_delay=delay, reason=reason)

    def _known(self, url: str) -> Robots | None:
        """Return the cached rules of the URL's origin. URLs of leases begin with their origin, and need no parsing."""
        end = url.find("/", len("http://_"))
        known = self._cache.get(url[:end], self._clock()) if end > 0 else None
        return known or self._cache.get(origin_of(parse(url)), self._clock())

    async def _learn(self, origin: str, text: bytes | None, lasts: float, reason: str = "") -> Robots:
        """Put the fleet's copy into the cache of this process."""
        expires = self._clock() + lasts
        if text is None:
            robots = Robots(reachable=False, expires=expires, reason=reason)
        elif len(text) > LARGE:
            robots = await asyncio.to_thread(self._read, text, expires)
        else:
            robots = self._read(text, expires)
        self._cache.put(origin, robots)
        return robots

    def _read(self, text: bytes, expires: float) -> Robots:
        return read_robots(text, self._user_agent, expires=expires, max_crawl_delay=self._max_crawl_delay)


def reason_of(error: Exception) -> str:
    """Return why robots.txt cannot be read. If DNS has no address for a host, its pages cannot be fetched either."""
    if isinstance(error, FetchError):
        reason = f"{error.kind}: {error}"
        return reason if error.kind == "dns" else f"{UNREACHABLE}: {reason}"
    return f"{UNREACHABLE}: {error}"


# ── redirects ──

LONGEST_DELAY = 60.0
"""The longest delay between two hops, in seconds."""
MOST_HOSTS, MOST_RESPONSES = 1_000, 32
REMEMBERED = 600.0
"""Seconds for which a response of another host is reused by further redirects to it."""

Get = Callable[[str], Awaitable[RobotsResponse]]


def time_for(delay: float) -> float:
    """Return the seconds that the most hops of a robots.txt may take, because of the delay between them."""
    return (MAX_REDIRECTS + 1) * min(delay, LONGEST_DELAY)


class HostTurns:
    """A host that redirects lead to. The requests to it take turns."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.opens = 0.0


class RedirectPacer:
    """Follows the redirects of one worker. *get* fetches a URL; *delay* returns the seconds between two requests to a host."""

    def __init__(self, get: Get, delay: Callable[[], float]) -> None:
        self._get = get
        self._delay = delay
        self._hosts: OrderedDict[str, HostTurns] = OrderedDict()
        self._responses: OrderedDict[str, tuple[float, RobotsResponse]] = OrderedDict()

    def trail(self) -> Get:
        """Return a function that fetches one robots.txt: the first URL with the claim of a page, then hop by hop."""
        home = ""

        async def follow(url: str) -> RobotsResponse:
            nonlocal home
            host = parse(url).host
            if not home:
                home = host
                return await self._fetch(url, self._turns_of(host))
            return await (self._at_home(url, host) if host == home else self._abroad(url, host))

        return follow

    async def _at_home(self, url: str, host: str) -> RobotsResponse:
        turns = self._turns_of(host)
        async with turns.lock:
            await _until(turns.opens)
            response = await self._fetch(url, turns)
            await _until(turns.opens)
        return response

    async def _abroad(self, url: str, host: str) -> RobotsResponse:
        turns = self._turns_of(host)
        async with turns.lock:
            known = self._remembered(url)
            if known:
                return known
            await _until(turns.opens)
            response = await self._fetch(url, turns)
        self._responses[url] = (time.monotonic() + REMEMBERED, response)
        while len(self._responses) > MOST_RESPONSES:
            self._responses.popitem(last=False)
        return response

    async def _fetch(self, url: str, turns: HostTurns) -> RobotsResponse:
        try:
            return await self._get(url)
        finally:
            turns.opens = time.monotonic() + min(self._delay(), LONGEST_DELAY)

    def _remembered(self, url: str) -> RobotsResponse | None:
        until, response = self._responses.get(url, (0.0, None))
        return response if until > time.monotonic() else None

    def _turns_of(self, host: str) -> HostTurns:
        turns = self._hosts.setdefault(host, HostTurns())
        self._hosts.move_to_end(host)
        while len(self._hosts) > MOST_HOSTS:
            self._hosts.popitem(last=False)
        return turns


async def _until(moment: float) -> None:
    wait = moment - time.monotonic()
    if wait > 0:
        await asyncio.sleep(wait)
