"""The settler: items are made durable, then their requests are settled, many at once.

While one batch is written and settled the next gathers, so under load a round trip and an fsync serve many pages, and a
lone page waits for nobody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from silkline.core.errors import (
    ConfigError,
    FrontierError,
    InvalidItem,
    SilklineError,
    SinkUnavailable,
    StoreUnavailable,
)
from silkline.core.lease import Admission, Lease
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.frontier.flows import Settlement
from silkline.frontier.frontier import Frontier
from silkline.sinks.sink import Record, Sink
from silkline.worker.failures import Failures, said
from silkline.worker.known import KnownLinks
from silkline.worker.outcome import Outcome
from silkline.worker.tally import Tally

log = logging.getLogger(__name__)

R = TypeVar("R")

MOST_AT_ONCE = 500
ENOUGH, MOMENT = 32, 0.005
"""With fewer outcomes than this it waits a moment for others to join: an fsync and two round trips serve them all.
Not when nothing else is under way: then somebody may be waiting for the links of this page."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0
UNSETTLED, UNSETTLED_AFTER = "what came of the page could not be sent", 60.0
COMPLAIN_EVERY = 60.0
FULL = (
    "the crawl is full, and this worker has no overflow: pages whose links find no room are put back and fetched again, "
    "%s times by now, and %s pages were ended. Start it with --overflow PATH, or create the crawl with a larger capacity"
)

DATA_FAULTS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError)
MOST_REFUSED = 3
"""Pages, one after the other, whose items a sink could not store for such a fault: then the sink is at fault, not they."""


class Settler:
    """Takes outcomes, stores their items, settles their leases.

    *done* is told of the leases that have ended, and also when a trouble is over. *more_to_come* says whether other
    outcomes are on their way. *failures* decides on pages whose items cannot be stored.
    """

    def __init__(
        self,
        frontier: Frontier,
        sinks: Sequence[Sink],
        tally: Tally,
        done: Callable[[Sequence[Lease]], None],
        more_to_come: Callable[[], bool],
        failures: Failures,
    ) -> None:
        self._frontier = frontier
        self._sinks = sinks
        self._tally = tally
        self._done = done
        self._more_to_come = more_to_come
        self._failures = failures
        self._refused: set[str] = set()
        self._complain_at = 0.0
        self._known = KnownLinks()
        self._waiting: list[Outcome] = []
        self._arrived = asyncio.Event()
        self._closing = False
        self.trouble: str | None = None
        """What keeps items from being stored now: claim nothing while it lasts."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, outcome: Outcome) -> None:
        """Leave an outcome to be stored and settled soon."""
        self._waiting.append(outcome)
        self._arrived.set()

    def close(self) -> None:
        """End `run` as soon as all is settled."""
        self._closing = True
        self._arrived.set()

    async def run(self) -> None:
        """Store and settle what arrives, until closed."""
        while self._waiting or not self._closing:
            await self._arrived.wait()
            self._arrived.clear()
            if len(self._waiting) < ENOUGH and self._more_to_come():
                await asyncio.sleep(MOMENT)
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
                await self._settle(await self._store(batch))

    async def _store(self, batch: Sequence[Outcome]) -> Sequence[Outcome]:
        """Make their items durable. A page with an item that cannot be stored fails for it, and takes no other with it."""
        records = [record for outcome in batch for record in outcome.records]
        try:
            await self._write(records)
        except InvalidItem as error:
            return await self._store_apart(batch, error)
        self._tally.items += len(records)
        return batch

    async def _store_apart(self, batch: Sequence[Outcome], error: InvalidItem) -> Sequence[Outcome]:
        if len(batch) > 1:
            half = len(batch) // 2
            return [*await self._store(batch[:half]), *await self._store(batch[half:])]
        lease = batch[0].lease
        if isinstance(error, Refused):
            self._refused.add(lease.url)
        return [Outcome(lease, self._failures.failed(lease, "storing", error))]

    async def _write(self, records: Sequence[Record]) -> None:
        """To all sinks at once. Each comes to its end, so that none is given records while it still writes others."""
        if not records or not self._sinks:
            return
        trusted = len(self._refused) < MOST_REFUSED
        acts = (self._persist(partial(_write, sink, records, trusted=trusted)) for sink in self._sinks)
        faults = [answer for answer in await asyncio.gather(*acts, return_exceptions=True) if answer is not None]
        if faults:
            raise min(faults, key=lambda fault: isinstance(fault, InvalidItem))
        self._refused.clear()

    async def _settle(self, batch: Sequence[Outcome]) -> None:
        try:
            pairs = [(outcome.lease, self._fresh(outcome.verdict)) for outcome in batch]
            settlement = await self._persist(partial(self._frontier.settle, pairs))
        except (ConfigError, FrontierError):
            raise  # of the crawl, not of a page: somebody has to look at it
        except Exception as error:  # noqa: BLE001 - whatever it is, one page's fault must not be that of all
            await self._settle_apart(batch, error)
            return
        self._take_note(pairs, settlement)
        self._done([outcome.lease for outcome in batch])

    async def _settle_apart(self, batch: Sequence[Outcome], error: Exception) -> None:
        """Something of a page cannot be sent: by halves it is found, and only that page ends otherwise."""
        if len(batch) > 1:
            half = len(batch) // 2
            await self._settle(batch[:half])
            await self._settle(batch[half:])
            return
        lease, instead = batch[0].lease, _instead(batch[0].verdict, error)
        log.error("%s could not be settled: %s: %s", lease.url, type(error).__name__, said(error))
        if instead:
            await self._settle([Outcome(lease, instead)])
        else:
            self._done([lease])  # the lease runs out, and the page is somebody else's

    def _fresh(self, verdict: Verdict) -> Verdict:
        """Without the links that are known to be in the frontier."""
        if isinstance(verdict, Complete) and verdict.links:
            unknown = self._known.unknown(verdict.links)
            self._tally.known += len(verdict.links) - len(unknown)
            return Complete(unknown)
        return verdict

    def _take_note(self, pairs: Sequence[tuple[Lease, Verdict]], settlement: Settlement) -> None:
        links = [link for _, verdict in pairs if isinstance(verdict, Complete) for link in verdict.links]
        self._known.note(links, settlement.links)
        lost, postponed = set(settlement.lost), set(settlement.postponed)
        self._tally.lost += len(lost)
        self._tally.postponed += len(postponed)
        if postponed and time.monotonic() >= self._complain_at:
            self._complain_at = time.monotonic() + COMPLAIN_EVERY
            log.warning(FULL, f"{self._tally.postponed:,}", f"{self._tally.ended:,}")
        self._tally.links += settlement.links.count(Admission.ADDED)
        for lease, verdict in pairs:
            if lease not in lost:
                self._tally.retried += isinstance(verdict, RetryIn)
                self._tally.buried += isinstance(verdict, Bury)
                self._tally.ended += isinstance(verdict, Bury | Complete) and lease not in postponed
        for refusal in settlement.links.refusals:
            self._tally.skipped[refusal.reason.partition(",")[0]] += 1

    async def _persist(self, act: Callable[[], Awaitable[R]]) -> R:
        """Do it, however long it takes: what was fetched is not thrown away because a store is down for a while."""
        pause = FIRST_PAUSE
        while True:
            try:
                answer = await act()
            except (SinkUnavailable, StoreUnavailable) as error:
                self._halt(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self._resume()
                return answer

    def _halt(self, error: SilklineError) -> None:
        what = "items cannot be stored" if isinstance(error, SinkUnavailable) else "pages cannot be settled"
        if self.trouble != str(error):
            log.warning("%s: %s. No page is claimed until it works again; nothing is lost", what, error)
        self.trouble = str(error)

    def _resume(self) -> None:
        if self.trouble:
            log.warning("stored again after: %s", self.trouble)
            self.trouble = None
            self._done(())


def _instead(verdict: Verdict, error: Exception) -> Verdict | None:
    """The verdict on a page whose own cannot be told: it is buried, or if that is the trouble, given back."""
    if isinstance(verdict, Release):
        return None
    if isinstance(verdict, Bury) and verdict.reason.startswith(UNSETTLED):
        return Release(UNSETTLED_AFTER)
    return Bury(f"{UNSETTLED}: {type(error).__name__}: {said(error)}")


class Refused(InvalidItem):
    """A sink failed in a way that looks as if an item were at fault."""


async def _write(sink: Sink, records: Sequence[Record], *, trusted: bool) -> None:
    """Whatever a sink raises, its items are not stored yet; what it says is final ends the worker.

    An error of a kind that data makes is taken for that of an item, as long as the sink is *trusted*.
    """
    try:
        await sink.write(records)
    except SilklineError:
        raise
    except Exception as error:
        kind = Refused if trusted and isinstance(error, DATA_FAULTS) else SinkUnavailable
        raise kind(f"{type(sink).__name__} failed: {type(error).__name__}: {said(error)}") from error
