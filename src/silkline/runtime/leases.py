"""The leases of a process: claiming them, holding and extending them, and vacating the places that they hold.

Leases are extended a few times in each lease time. Silkline's worker does so in a thread with a separate connection
(`ExtenderThread`): a handler that computes for some seconds blocks the event loop and everything that runs on it. The Scrapy
plugin has its event loop in a separate thread already, and extends leases in a task (`extend_regularly`). A lease is no longer
extended when it is older than the limit of its holder, or after the holder has dropped it.

A lease holds one of the places of its host, so that no site gets more requests at a time than its politeness allows. The site
has done its part when a page is downloaded; the handler and the sinks may take much longer. For pages that take longer than a
moment, `Vacater` frees the place, and the next page of the host can be claimed. Most pages are settled before a command is worth
it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress

from silkline.core.lease import ISOLATE_FOR, Lease, Leases
from silkline.errors import PartlyUnavailable, SilklineError, StoreUnavailable
from silkline.frontier.frontier import Frontier
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.verbs.claim import SuspectPolicy

log = logging.getLogger(__name__)

# ── claiming ──


class Claimer:
    """Makes one claim at a time, which `interrupt` ends early.

    If the claiming task is cancelled at the moment in which the reply arrives, *unstarted* is called with the leases: the caller
    must give them back.
    """

    def __init__(self, unstarted: Callable[[Leases], None]) -> None:
        self._unstarted = unstarted
        self._claim: asyncio.Future[Leases] | None = None

    async def claim(self, call: Callable[[], Awaitable[Leases]]) -> Leases:
        """Return the leases that *call* claims; none if it was interrupted."""
        self._claim = claim = asyncio.ensure_future(call())
        try:
            return await claim
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if claim.cancelled() and not (task and task.cancelling()):
                return Leases()
            if claim.done() and not claim.cancelled() and not claim.exception():
                self._unstarted(claim.result())
            raise
        finally:
            self._claim = None

    def interrupt(self) -> None:
        """End the claim in progress, if there is one. The frontier gives back what it has claimed."""
        if self._claim is not None:
            self._claim.cancel()


class Suspects:
    """The suspects that a process holds: requests whose worker was lost.

    A process holds one suspect at a time. A suspect with a strike, which may have taken its worker down, is worked on alone.
    """

    def __init__(self) -> None:
        self._held: set[Lease] = set()
        self._isolate_until = 0.0

    def add(self, leases: Leases) -> None:
        """Note what a claim returned."""
        self._held.update(lease for lease in leases if lease.suspect)
        self._isolate_until = time.monotonic() + ISOLATE_FOR if leases.isolate else 0.0

    def drop(self, leases: Iterable[Lease]) -> bool:
        """Remove leases that have ended. Returns whether a suspect was among them, so that another one may be claimed."""
        before = len(self._held)
        self._held.difference_update(leases)
        return len(self._held) < before

    def wanted(self, *, busy: bool) -> SuspectPolicy:
        """Which suspects may be claimed by a process that is *busy* with other leases, or not."""
        if self._held:
            return "none"
        return "beside" if busy else "alone"

    def forbid_claims(self, *, busy: bool) -> bool:
        """Whether nothing may be claimed: the process holds a request with a strike, or must end the others first."""
        isolating = busy and time.monotonic() < self._isolate_until
        return isolating or any(lease.crashes for lease in self._held)


# ── holding and extending ──

EXTENSIONS_PER_LEASE = 4
"""Leases are extended every quarter of their time."""

Lost = Callable[[list[Lease]], None]


class HeldLeases:
    """The leases that a process holds, the oldest first. All methods may be called in any thread."""

    def __init__(self, limit: float = math.inf) -> None:
        self._limit = limit
        self._since: dict[Lease, float] = {}

    def hold(self, leases: Iterable[Lease]) -> None:
        """Add leases that were just claimed."""
        now = time.monotonic()
        self._since.update((lease, now) for lease in leases)

    def drop(self, leases: Iterable[Lease]) -> None:
        """Remove leases that have ended or are given up. Leases that are not held are ignored."""
        for lease in leases:
            self._since.pop(lease, None)

    def __contains__(self, lease: object) -> bool:
        return lease in self._since

    def __len__(self) -> int:
        return len(self._since)

    def __iter__(self) -> Iterator[Lease]:
        """Iterate over a copy: another thread may add or remove leases meanwhile."""
        return iter(list(self._since))

    def to_extend(self) -> list[Lease]:
        """The leases that are held for no longer than the limit."""
        oldest = time.monotonic() - self._limit
        return [lease for lease, since in list(self._since.items()) if since > oldest]


def lost_leases(error: SilklineError, leases: int) -> list[Lease]:
    """Log an extension that failed, and return the leases that are known to be lost nevertheless.

    If some shards are unreachable, the leases of all other shards are extended. The next extension may come in time.
    """
    if isinstance(error, PartlyUnavailable):
        log.debug("%d of %d leases could not be extended: %s", len(error.leases), leases, error)
        lost: list[Lease] = error.result
        return lost
    level = logging.DEBUG if isinstance(error, StoreUnavailable) else logging.WARNING  # the connection logs an outage
    log.log(level, "leases could not be extended: %s", error)
    return []


async def extend_regularly(
    frontier: Frontier, held: HeldLeases, lost: Lost, lease: float, *, allowed: Callable[[], bool] = lambda: True
) -> None:
    """Extend the held leases until cancelled, and call *lost* with those that another worker holds.

    Leases are left to expire while *allowed* returns False.
    """
    while True:
        await asyncio.sleep(lease / EXTENSIONS_PER_LEASE)
        if not allowed() or not (leases := held.to_extend()):
            continue
        try:
            gone = await frontier.extend(leases)
        except SilklineError as error:
            gone = lost_leases(error, len(leases))
        if gone:
            lost(gone)


class ExtenderThread(threading.Thread):
    """Extends the held leases in a thread; *lost* is called on the event loop with those that another worker holds."""

    def __init__(
        self,
        open_frontier: Callable[[], SyncFrontier],
        loop: asyncio.AbstractEventLoop,
        held: HeldLeases,
        lost: Lost,
        lease: float,
    ) -> None:
        super().__init__(name="silkline-heartbeat", daemon=True)
        self._open_frontier = open_frontier
        self._loop = loop
        self._held = held
        self._lost = lost
        self._every = lease / EXTENSIONS_PER_LEASE
        self._ended = threading.Event()

    def stop(self) -> None:
        """End the thread soon; `join` waits for it."""
        self._ended.set()

    def run(self) -> None:
        frontier: SyncFrontier | None = None
        while not self._ended.wait(self._every) and not self._loop.is_closed():
            leases = self._held.to_extend()
            try:
                frontier = frontier or self._open_frontier()
                gone = frontier.extend(leases) if leases else []
            except SilklineError as error:
                gone = lost_leases(error, len(leases))
            if gone:
                self._call_loop(gone)
        if frontier:
            frontier.close()

    def _call_loop(self, gone: list[Lease]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lost, gone)
        except RuntimeError:  # the loop is closed, and the worker has ended
            self._ended.set()


# ── vacating ──

LINGER = 0.05
"""Seconds from the download of a page after which its place is vacated, if it is not settled by then."""


def _linger() -> float:
    return LINGER


def _nothing() -> None:
    """Do nothing after a vacate."""


async def _no_report(_: Frontier) -> None:
    """Report nothing before a vacate."""


class Vacater:
    """Vacates the places of downloaded pages.

    *wanted* returns whether more pages could be started than were claimed; without that, no place is vacated. *linger* returns
    the seconds to wait for the settlement. *report* is called before each vacate, *vacated* after it.
    """

    def __init__(
        self,
        wanted: Callable[[], bool],
        *,
        linger: Callable[[], float] = _linger,
        report: Callable[[Frontier], Awaitable[None]] = _no_report,
        vacated: Callable[[], None] = _nothing,
    ) -> None:
        self._wanted = wanted
        self._linger = linger
        self._report = report
        self._vacated = vacated
        self._since: dict[Lease, float] = {}
        self._some = asyncio.Event()

    def downloaded(self, lease: Lease) -> None:
        """Note that the page of a lease is downloaded. Must be called on the event loop."""
        self._since[lease] = time.monotonic()
        self._some.set()

    def drop(self, leases: Iterable[Lease]) -> None:
        """Forget leases that are settled, or whose places must not be vacated."""
        for lease in leases:
            self._since.pop(lease, None)

    async def run(self, frontier: Frontier) -> None:
        """Vacate places until cancelled."""
        while True:
            await self._some.wait()
            linger = self._linger()
            await asyncio.sleep(linger)
            if not await self._vacate(frontier, time.monotonic() - linger) and linger < LINGER:
                await asyncio.sleep(LINGER - linger)
            if not self._since:
                self._some.clear()

    async def _vacate(self, frontier: Frontier, before: float) -> bool:
        """Vacate the places of all pages that were downloaded *before* a time. Returns whether there were any."""
        lingering = [lease for lease, since in self._since.items() if since <= before]
        if not lingering or not self._wanted():
            return False
        try:
            with suppress(PartlyUnavailable):
                await self._report(frontier)
                await frontier.vacate(lingering)
        except SilklineError:  # claims and settlements meet the same error, and report it
            return False
        self.drop(lingering)
        self._vacated()
        return True
