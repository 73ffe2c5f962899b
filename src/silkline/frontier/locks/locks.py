"""Locks, semaphores and rate limiters that all processes of a crawl share.

Each change is one script, with the time of the server. A process that dies holds its lock until its time is over; a rate limiter has
no holders.
"""

from __future__ import annotations

import random
import re
import secrets
import time
from functools import partial
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from silkline.core.scope import site_of
from silkline.core.url import parse
from silkline.errors import ConfigError, LockLost, RequestError, StoreUnavailable
from silkline.frontier.arguments import milliseconds
from silkline.frontier.locks.waiting import AsyncRepeater, AsyncTurn, async_caller
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.transport.command import Command, Flow, ask, load
from silkline.frontier.transport.connection import run_or_undo, sleep

R = TypeVar("R")

DEFAULT_TTL = 10.0
SHORTEST_TTL = 0.1
MOST_PLACES = 1000
MOST_BURST = 1_000_000
LONGEST_NAME = 512
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.25
"""Seconds between two polls of a lock that is taken: a release is not announced."""
RENEWALS = 3
"""How often a hold is renewed in its time."""
_PERIODS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)\s*")


class HoldReply(NamedTuple):
    """What the server replied to a process that wants a place."""

    token: int
    """The fencing token; 0 if all places are taken."""
    expires_in: float
    """Seconds until the place expires, or the first of those that are taken."""


def hold(keys: CrawlKeys, field: str, holder: str, ttl_ms: int, places: int) -> Command[HoldReply]:
    def decode(reply: list[bytes]) -> HoldReply:
        return HoldReply(int(reply[0] or 0), int(reply[1]) / 1000)

    return Command(load("hold"), (keys.settings,), (field, holder, ttl_ms, places), decode)


def renew_hold(keys: CrawlKeys, field: str, holder: str, ttl_ms: int) -> Command[bool]:
    return Command(load("renew_hold"), (keys.settings,), (field, holder, ttl_ms), bool)


def release_hold(keys: CrawlKeys, field: str, holder: str) -> Command[bool]:
    return Command(load("release_hold"), (keys.settings,), (field, holder), bool)


def take_permit(keys: CrawlKeys, field: str, interval_ms: float, burst: int) -> Command[float]:
    """Take a permit; the result is 0, or the seconds until there is one."""

    def decode(reply: Any) -> float:
        return int(reply) / 1000

    return Command(load("take_permit"), (keys.settings,), (field, repr(interval_ms), burst), decode)


# ── where they are stored ──


class LockStore(Protocol):
    """Where locks are stored: on the server of the crawl, or in memory."""

    async def hold(self, field: str, holder: str, ttl_ms: int, places: int) -> HoldReply: ...

    async def renew(self, field: str, holder: str, ttl_ms: int) -> bool: ...

    async def release(self, field: str, holder: str) -> bool: ...

    async def permit(self, field: str, interval_ms: float, burst: int) -> float: ...


class FlowRunner(Protocol):
    """An open crawl."""

    async def run(self, flow: Flow[R]) -> R: ...


class ServerLocks:
    """The locks of a crawl on its server."""

    def __init__(self, session: FlowRunner, keys: CrawlKeys) -> None:
        self._session = session
        self._keys = keys

    async def hold(self, field: str, holder: str, ttl_ms: int, places: int) -> HoldReply:
        return await self._session.run(ask(hold(self._keys, field, holder, ttl_ms, places)))

    async def renew(self, field: str, holder: str, ttl_ms: int) -> bool:
        return await self._session.run(ask(renew_hold(self._keys, field, holder, ttl_ms)))

    async def release(self, field: str, holder: str) -> bool:
        return await self._session.run(ask(release_hold(self._keys, field, holder)))

    async def permit(self, field: str, interval_ms: float, burst: int) -> float:
        return await self._session.run(ask(take_permit(self._keys, field, interval_ms, burst)))


# ── locks and semaphores ──


class Hold:
    """A lock, or a place of a semaphore, that this process has. It is renewed in the background until it is released."""

    def __init__(self, store: LockStore, field: str, holder: str, ttl_ms: int, reply: HoldReply, began: float) -> None:
        self._store = store
        self._field = field
        self._holder = holder
        self._ttl_ms = ttl_ms
        self._ends = began + reply.expires_in
        self._is_lost = False
        self._is_released = False
        self.token = reply.token
        """The fencing token: larger than that of every earlier hold in this crawl."""
        self._renewal = AsyncRepeater(self._renew, ttl_ms / 1000 / RENEWALS)

    @property
    def lost(self) -> bool:
        """Whether another process may have it now: it could not be renewed in time."""
        return self._is_lost or (not self._is_released and time.monotonic() >= self._ends)

    def check(self) -> None:
        """Raise `LockLost` if it is lost. Call it before a step that another holder must not see twice."""
        if self.lost:
            raise LockLost(
                f"the {self._field.replace(':', ' ', 1)} was not renewed within {self._ttl_ms / 1000:g} s, and another process may "
                "have it now: undo what you did under it, or use a longer ttl"
            )

    async def release(self) -> None:
        """Give it back. Raises `LockLost` if it was lost; a hold that was released is left alone."""
        if self._is_released:
            return
        await self._renewal.stop()
        self.check()
        self._is_released = True
        await self._store.release(self._field, self._holder)

    async def _renew(self) -> float | None:
        """Renew it, and return the seconds until the next renewal; None if it is lost."""
        began = time.monotonic()
        try:
            if await self._store.renew(self._field, self._holder, self._ttl_ms):
                self._ends = began + self._ttl_ms / 1000
                return self._ttl_ms / 1000 / RENEWALS
            self._is_lost = True
        except StoreUnavailable:
            return None if self.lost else min(LONGEST_PAUSE, self._ttl_ms / 10_000)
        except Exception:  # noqa: BLE001 - the crawl was removed, or the frontier was closed: it is not renewed any more
            self._is_lost = True
        return None


class Semaphore:
    """At most *places* holders at a time, in all processes of the crawl.

    It is a context manager, also for several callers at the same time; `acquire` does the same by hand.
    """

    kind = "semaphore"

    def __init__(self, store: LockStore, name: str, places: int, ttl: float) -> None:
        if not isinstance(places, int) or not 1 <= places <= MOST_PLACES:
            raise ConfigError(f"a semaphore has from 1 to {MOST_PLACES} places, got {places!r}")
        self._store = store
        self._field = field_of(self.kind, name)
        self._places = places
        self._ttl_ms = milliseconds("ttl", ttl, least=SHORTEST_TTL)
        self._held: dict[object, list[Hold]] = {}

    async def acquire(self, *, wait: float | None = None) -> Hold | None:
        """Take a place as soon as one is free, or return None after *wait* seconds. Waiting processes have no order."""
        holder, pause = secrets.token_hex(8), FIRST_PAUSE
        until = _deadline(wait)
        while True:
            began = time.monotonic()
            reply = await run_or_undo(partial(self._ask, holder), partial(self._undo, holder))
            if reply.token:
                return Hold(self._store, self._field, holder, self._ttl_ms, reply, began)
            left = until - time.monotonic()
            if left <= 0:
                return None
            await sleep(min(left, reply.expires_in, pause * random.uniform(0.5, 1.0)))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _ask(self, holder: str) -> HoldReply:
        return await self._store.hold(self._field, holder, self._ttl_ms, self._places)

    async def _undo(self, holder: str, reply: HoldReply) -> None:
        """Give back what a cancelled caller did not get. If this fails, it expires."""
        if reply.token:
            await self._store.release(self._field, holder)

    async def __aenter__(self) -> Hold:
        held = await self.acquire()
        assert held is not None
        self._held.setdefault(async_caller(), []).append(held)
        return held

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        caller = async_caller()
        held = self._held[caller].pop()
        if not self._held[caller]:
            del self._held[caller]
        try:
            await held.release()
        except LockLost:
            if kind is None:  # else the error of the block comes first
                raise
        except StoreUnavailable:
            pass  # it expires


class Lock(Semaphore):
    """One holder at a time, in all processes of the crawl. It is not reentrant: a holder that enters it again waits for itself."""

    kind = "lock"

    def __init__(self, store: LockStore, name: str, ttl: float) -> None:
        super().__init__(store, name, 1, ttl)


# ── rate limiters ──


class RateLimiter:
    """At most *burst* starts at once and *rate* starts per second, in all processes of the crawl."""

    kind = "limiter"

    def __init__(self, store: LockStore, name: str, rate: float | str, burst: int) -> None:
        if not isinstance(burst, int) or not 1 <= burst <= MOST_BURST:
            raise ConfigError(f"burst must be a whole number from 1 to {MOST_BURST}, got {burst!r}")
        self._store = store
        self._field = field_of(self.kind, name)
        self._interval_ms = interval_of(rate)
        self._burst = burst
        self._turn = AsyncTurn()

    async def try_acquire(self) -> bool:
        """Take a permit if there is one now."""
        return not await self._store.permit(self._field, self._interval_ms, self._burst)

    async def acquire(self, *, wait: float | None = None) -> bool:
        """Wait for a permit and take it. Returns False if there is none within *wait* seconds.

        A caller that stops waiting has used nothing. In one process, callers of the same limiter get permits in turn.
        """
        until = _deadline(wait)
        if not await self._turn.take(wait):
            return False
        try:
            while pause := await self._store.permit(self._field, self._interval_ms, self._burst):
                if time.monotonic() + pause > until:
                    return False
                await sleep(pause)
            return True
        finally:
            self._turn.pass_on()

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: a permit is used by its start."""


def field_of(kind: str, name: str) -> str:
    if not isinstance(name, str) or not 0 < len(name.encode(errors="replace")) <= LONGEST_NAME:
        raise ConfigError(f"the name of a {kind} must be text of 1 to {LONGEST_NAME} bytes, got {str(name)[:80]!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"the name of a {kind} must be valid Unicode, got {name[:80]!r}") from None
    return f"{kind}:{name}"


def name_for_site(name: str, site: str) -> str:
    """Return the name of a limiter for the registrable domain of a URL or a host."""
    try:
        host = parse(f"https://{site}/" if isinstance(site, str) and "://" not in site else site).host
    except RequestError as error:
        raise ConfigError(f"site must be a URL or a host, got {site!r:.200}: {error}") from None
    return f"{name} {site_of(host)}"


def interval_of(rate: float | str) -> float:
    """Return the milliseconds per permit of a rate: a number per second, or text such as 10/s, 100/m, 1000/h or 5000/d."""
    per_second: float | None = None
    if isinstance(rate, str) and (match := _RATE.fullmatch(rate)):
        per_second = float(match[1]) / _PERIODS[match[2]]
    elif isinstance(rate, int | float) and not isinstance(rate, bool):
        per_second = rate
    if per_second is None or not 1e-6 <= per_second <= 1e6:
        raise ConfigError(
            f"rate must be a number of permits per second from 0.000001 to 1000000, or text such as '10/s' or '100/m', got {rate!r}"
        )
    return 1000 / per_second


def _deadline(wait: float | None) -> float:
    if wait is None:
        return float("inf")
    if not isinstance(wait, int | float) or not wait >= 0:
        raise ConfigError(f"wait must be a number of seconds, or None to wait without a limit, got {wait!r}")
    return time.monotonic() + wait
