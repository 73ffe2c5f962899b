# Generated from locks.py by tools/generate_sync.py. Do not edit: change that module and run `make sync`.
"""Locks, semaphores and rate limiters that all processes of a crawl share.

Each change is one script, with the time of the server. A process that dies holds its lock until its time is over; a rate limiter has
no holders.
"""

from __future__ import annotations

import random
import secrets
import time
from functools import partial
from typing import Protocol, Self, TypeVar

from silkline.errors import ConfigError, LockLost, StoreUnavailable
from silkline.frontier.arguments import milliseconds
from silkline.frontier.locks.locks import (
    MOST_BURST,
    MOST_PLACES,
    RENEWALS,
    SHORTEST_TTL,
    HoldReply,
    _deadline,
    field_of,
    hold,
    interval_of,
    release_hold,
    renew_hold,
    take_permit,
)
from silkline.frontier.locks.sync_waiting import SyncRepeater, SyncTurn, sync_caller
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.transport.command import Flow, ask
from silkline.frontier.transport.sync.concurrency import run_or_undo, sleep

R = TypeVar("R")
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.25
"""Seconds between two polls of a lock that is taken: a release is not announced."""


# ── where they are stored ──


class SyncLockStore(Protocol):
    """Where locks are stored: on the server of the crawl, or in memory."""

    def hold(self, field: str, holder: str, ttl_ms: int, places: int) -> HoldReply: ...

    def renew(self, field: str, holder: str, ttl_ms: int) -> bool: ...

    def release(self, field: str, holder: str) -> bool: ...

    def permit(self, field: str, interval_ms: float, burst: int) -> float: ...


class SyncFlowRunner(Protocol):
    """An open crawl."""

    def run(self, flow: Flow[R]) -> R: ...


class SyncServerLocks:
    """The locks of a crawl on its server."""

    def __init__(self, session: SyncFlowRunner, keys: CrawlKeys) -> None:
        self._session = session
        self._keys = keys

    def hold(self, field: str, holder: str, ttl_ms: int, places: int) -> HoldReply:
        return self._session.run(ask(hold(self._keys, field, holder, ttl_ms, places)))

    def renew(self, field: str, holder: str, ttl_ms: int) -> bool:
        return self._session.run(ask(renew_hold(self._keys, field, holder, ttl_ms)))

    def release(self, field: str, holder: str) -> bool:
        return self._session.run(ask(release_hold(self._keys, field, holder)))

    def permit(self, field: str, interval_ms: float, burst: int) -> float:
        return self._session.run(ask(take_permit(self._keys, field, interval_ms, burst)))


# ── locks and semaphores ──


class SyncHold:
    """A lock, or a place of a semaphore, that this process has. It is renewed in the background until it is released."""

    def __init__(
        self, store: SyncLockStore, field: str, holder: str, ttl_ms: int, reply: HoldReply, began: float
    ) -> None:
        self._store = store
        self._field = field
        self._holder = holder
        self._ttl_ms = ttl_ms
        self._ends = began + reply.expires_in
        self._is_lost = False
        self._is_released = False
        self.token = reply.token
        """The fencing token: larger than that of every earlier hold in this crawl."""
        self._renewal = SyncRepeater(self._renew, ttl_ms / 1000 / RENEWALS)

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

    def release(self) -> None:
        """Give it back. Raises `LockLost` if it was lost; a hold that was released is left alone."""
        if self._is_released:
            return
        self._renewal.stop()
        self.check()
        self._is_released = True
        self._store.release(self._field, self._holder)

    def _renew(self) -> float | None:
        """Renew it, and return the seconds until the next renewal; None if it is lost."""
        began = time.monotonic()
        try:
            if self._store.renew(self._field, self._holder, self._ttl_ms):
                self._ends = began + self._ttl_ms / 1000
                return self._ttl_ms / 1000 / RENEWALS
            self._is_lost = True
        except StoreUnavailable:
            return None if self.lost else min(LONGEST_PAUSE, self._ttl_ms / 10_000)
        except Exception:  # noqa: BLE001 - the crawl was removed, or the frontier was closed: it is not renewed any more
            self._is_lost = True
        return None


class SyncSemaphore:
    """At most *places* holders at a time, in all processes of the crawl.

    It is a context manager, also for several callers at the same time; `acquire` does the same by hand.
    """

    kind = "semaphore"

    def __init__(self, store: SyncLockStore, name: str, places: int, ttl: float) -> None:
        if not isinstance(places, int) or not 1 <= places <= MOST_PLACES:
            raise ConfigError(f"a semaphore has from 1 to {MOST_PLACES} places, got {places!r}")
        self._store = store
        self._field = field_of(self.kind, name)
        self._places = places
        self._ttl_ms = milliseconds("ttl", ttl, least=SHORTEST_TTL)
        self._held: dict[object, list[SyncHold]] = {}

    def acquire(self, *, wait: float | None = None) -> SyncHold | None:
        """Take a place as soon as one is free, or return None after *wait* seconds. Waiting processes have no order."""
        holder, pause = secrets.token_hex(8), FIRST_PAUSE
        until = _deadline(wait)
        while True:
            began = time.monotonic()
            reply = run_or_undo(partial(self._ask, holder), partial(self._undo, holder))
            if reply.token:
                return SyncHold(self._store, self._field, holder, self._ttl_ms, reply, began)
            left = until - time.monotonic()
            if left <= 0:
                return None
            sleep(min(left, reply.expires_in, pause * random.uniform(0.5, 1.0)))
            pause = min(pause * 2, LONGEST_PAUSE)

    def _ask(self, holder: str) -> HoldReply:
        return self._store.hold(self._field, holder, self._ttl_ms, self._places)

    def _undo(self, holder: str, reply: HoldReply) -> None:
        """Give back what a cancelled caller did not get. If this fails, it expires."""
        if reply.token:
            self._store.release(self._field, holder)

    def __enter__(self) -> SyncHold:
        held = self.acquire()
        assert held is not None
        self._held.setdefault(sync_caller(), []).append(held)
        return held

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        caller = sync_caller()
        held = self._held[caller].pop()
        if not self._held[caller]:
            del self._held[caller]
        try:
            held.release()
        except LockLost:
            if kind is None:  # else the error of the block comes first
                raise
        except StoreUnavailable:
            pass  # it expires


class SyncLock(SyncSemaphore):
    """One holder at a time, in all processes of the crawl. It is not reentrant: a holder that enters it again waits for itself."""

    kind = "lock"

    def __init__(self, store: SyncLockStore, name: str, ttl: float) -> None:
        super().__init__(store, name, 1, ttl)


# ── rate limiters ──


class SyncRateLimiter:
    """At most *burst* starts at once and *rate* starts per second, in all processes of the crawl."""

    kind = "limiter"

    def __init__(self, store: SyncLockStore, name: str, rate: float | str, burst: int) -> None:
        if not isinstance(burst, int) or not 1 <= burst <= MOST_BURST:
            raise ConfigError(f"burst must be a whole number from 1 to {MOST_BURST}, got {burst!r}")
        self._store = store
        self._field = field_of(self.kind, name)
        self._interval_ms = interval_of(rate)
        self._burst = burst
        self._turn = SyncTurn()

    def try_acquire(self) -> bool:
        """Take a permit if there is one now."""
        return not self._store.permit(self._field, self._interval_ms, self._burst)

    def acquire(self, *, wait: float | None = None) -> bool:
        """Wait for a permit and take it. Returns False if there is none within *wait* seconds.

        A caller that stops waiting has used nothing. In one process, callers of the same limiter get permits in turn.
        """
        until = _deadline(wait)
        if not self._turn.take(wait):
            return False
        try:
            while pause := self._store.permit(self._field, self._interval_ms, self._burst):
                if time.monotonic() + pause > until:
                    return False
                sleep(pause)
            return True
        finally:
            self._turn.pass_on()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: a permit is used by its start."""
