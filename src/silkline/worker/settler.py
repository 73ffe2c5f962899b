"""The settler: items and archived pages are stored in the sinks, then their requests are settled, many at once.

While one batch is stored and settled, the next one gathers. So under load, a round trip and an fsync serve many pages, and a single
page does not wait for others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from silkline.core.error_text import message_of
from silkline.core.lease import Lease
from silkline.core.verdict import Complete, Verdict
from silkline.errors import (
    InvalidItem,
    PartlyUnavailable,
    SilklineError,
    SinkUnavailable,
    StoreUnavailable,
)
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.enqueue import Admission
from silkline.frontier.verbs.history import HandlerCounts
from silkline.frontier.verbs.settle import Settlement
from silkline.runtime.counters import Counters
from silkline.runtime.settling import (
    MOST_AT_ONCE,
    BatchSettler,
    DeadLimitWarning,
    Ending,
    Endings,
    KnownLinks,
    count_endings,
    retry_until_reachable,
)
from silkline.sinks.archive.exchange import Exchange
from silkline.sinks.sink import Archive, Record, Sink
from silkline.worker.attempt import Outcome, log_page
from silkline.worker.failures import Failures

log = logging.getLogger(__name__)

R = TypeVar("R")

ENOUGH, MOMENT = 32, 0.005
"""With fewer outcomes than this, the settler waits a moment for more: an fsync and two round trips serve them all. It does not
wait when no other page is in progress: then a worker may be waiting for the links of this page."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0
COMPLAIN_EVERY = 60.0
FULL = (
    "the crawl is full, and this worker has no overflow: pages whose links do not fit are put back and fetched again "
    "(%s times so far; %s pages ended). Start it with --overflow PATH, or create the crawl with a larger capacity"
)

DATA_FAULTS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError)
MOST_REFUSED = 3
"""Pages in a row whose items a sink could not store because of such an error: then the sink is at fault, not the items."""


class Settler:
    """Takes outcomes, stores their items, settles their leases.

    *done* is called with the leases that have ended, and without any when trouble is over. *more_to_come* returns whether other
    pages are in progress. *failures* decides on pages whose items cannot be stored. *handler_of* returns the counters of the
    handler of a page.
    """

    def __init__(
        self,
        frontier: Frontier,
        sinks: Sequence[Sink],
        counters: Counters,
        done: Callable[[Sequence[Lease]], None],
        more_to_come: Callable[[], bool],
        failures: Failures,
        handler_of: Callable[[Lease], HandlerCounts],
    ) -> None:
        self._frontier = frontier
        self._sinks = sinks
        self._archives = archives_of(sinks)
        self._counters = counters
        self._done = done
        self._more_to_come = more_to_come
        self._failures = failures
        self._handler_of = handler_of
        self._refused: set[str] = set()
        self._complain_at = 0.0
        self._memory_refusals = 0
        self._of_a_sink = False
        self._known = KnownLinks(lambda: frontier.losses)
        self._waiting: list[Outcome] = []
        self._arrived = asyncio.Event()
        self._closing = False
        self._dead_limit = DeadLimitWarning(frontier.crawl, "dead_limit")
        self._batches = BatchSettler(
            self._send, self._retry, settled=self._count, ended=self._ended, prepare=self._without_known_links
        )
        self.trouble: str | None = None
        """What keeps items from being stored now. The worker claims nothing while it lasts."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def partly(self) -> str | None:
        """Why some pages cannot be settled though others can; see `BatchSettler.partly`."""
        return self._batches.partly

    @property
    def aside(self) -> int:
        """Pages that wait for an unreachable shard; see `BatchSettler.aside`."""
        return self._batches.aside

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
        try:
            while self._waiting or self._batches.busy or not self._closing:
                await self._arrived.wait()
                self._arrived.clear()
                self._batches.check()
                if len(self._waiting) < ENOUGH and self._more_to_come():
                    await asyncio.sleep(0)  # tasks that wait for nothing have ended then
                if len(self._waiting) < ENOUGH and self._more_to_come():
                    await asyncio.sleep(MOMENT)
                while self._waiting:
                    batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
                    await self._archive(batch)
                    await self._batches.settle(await self._store(batch))
        finally:
            self._batches.close()

    # ── archives ──

    async def _archive(self, batch: Sequence[Outcome]) -> None:
        """Store what was sent and received in all archives, and wait until they can."""
        exchanges = [exchange for outcome in batch for exchange in outcome.exchanges]
        if exchanges:
            writes = (self._retry(partial(_archive, archive, exchanges)) for archive in self._archives)
            await asyncio.gather(*writes)

    # ── items ──

    async def _store(self, batch: Sequence[Outcome]) -> list[Ending]:
        """Store the items of a batch, and return the verdicts on its pages. A page with an item that cannot be stored fails."""
        records = [record for outcome in batch for record in outcome.records]
        try:
            await self._write(records)
        except InvalidItem as error:
            return await self._store_apart(batch, error)
        self._counters.items += len(records)
        for outcome in batch:
            if outcome.records:
                self._handler_of(outcome.lease).items += len(outcome.records)
        return [(outcome.lease, outcome.verdict) for outcome in batch]

    async def _store_apart(self, batch: Sequence[Outcome], error: InvalidItem) -> list[Ending]:
        if len(batch) > 1:
            half = len(batch) // 2
            return [*await self._store(batch[:half]), *await self._store(batch[half:])]
        lease = batch[0].lease
        if isinstance(error, RefusedItem):
            self._refused.add(lease.url)
        verdict = self._failures.failed(lease, "storing", error)
        log_page(lease, verdict, lease.request.handler)
        return [(lease, verdict)]

    async def _write(self, records: Sequence[Record]) -> None:
        """Write to all sinks at once, and wait for each of them, so that none gets records while it still writes others."""
        if not records or not self._sinks:
            return
        trusted = len(self._refused) < MOST_REFUSED
        writes = (self._retry(partial(_write, sink, records, trusted=trusted)) for sink in self._sinks)
        faults = [error for error in await asyncio.gather(*writes, return_exceptions=True) if error is not None]
        if faults:
            raise min(faults, key=lambda fault: isinstance(fault, InvalidItem))
        self._refused.clear()

    # ── leases ──

    async def _send(self, endings: Endings) -> Settlement:
        try:
            return await self._frontier.settle(endings)
        except StoreUnavailable:  # a server that was unreachable may have lost links
            self._known.forget()
            raise

    def _without_known_links(self, verdict: Verdict) -> Verdict:
        """Leave out links that are known to be in the frontier."""
        if isinstance(verdict, Complete) and verdict.links:
            links, known = self._known.split(verdict.links)
            return Complete(links, known, next_visit=verdict.next_visit)
        return verdict

    def _count(self, endings: Endings, settlement: Settlement, unreached: Collection[Lease]) -> None:
        completed = [verdict for _, verdict in endings if isinstance(verdict, Complete)]
        self._known.note([link for verdict in completed for link in verdict.links], settlement.links)
        self._counters.known += sum(len(verdict.known) for verdict in completed)
        if settlement.lost:
            self._known.forget()  # this worker or the server was unreachable for a long time
        count_endings(self._counters, endings, settlement, unreached, self._handler_of)
        self._dead_limit.note(settlement)
        self._counters.postponed += len(set(settlement.postponed))
        refusals, self._memory_refusals = self._memory_refusals, self._frontier.internal.memory_refusals
        lacks_memory = self._memory_refusals > refusals  # the worker warns of that
        if settlement.postponed and not lacks_memory and time.monotonic() >= self._complain_at:
            self._complain_at = time.monotonic() + COMPLAIN_EVERY
            log.warning(FULL, f"{self._counters.postponed:,}", f"{self._counters.ended:,}")
        self._counters.links += settlement.links.count(Admission.ADDED)
        for refusal in settlement.links.refusals:
            self._counters.skipped[refusal.reason.partition(",")[0]] += 1

    def _ended(self, leases: Sequence[Lease]) -> None:
        if not leases:
            self._arrived.set()  # leases that waited apart are settled, or their task has failed
        self._done(leases)

    # ── outages ──

    async def _retry(self, call: Callable[[], Awaitable[R]]) -> R:
        """Repeat a call until the server or the sink is reachable, so that fetched pages are not lost."""
        result = await retry_until_reachable(call, self._halt, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        self._resume()
        return result

    def _halt(self, error: SilklineError) -> None:
        if isinstance(error, PartlyUnavailable):
            raise error
        if self.trouble != str(error) and isinstance(error, SinkUnavailable):
            log.warning("items cannot be stored: %s. No page is claimed until it works again; nothing is lost", error)
        self.trouble = str(error)
        self._of_a_sink = isinstance(error, SinkUnavailable)

    def _resume(self) -> None:
        if self.trouble:
            log.log(logging.WARNING if self._of_a_sink else logging.DEBUG, "stored again after: %s", self.trouble)
            self.trouble = None
            self._done(())


def archives_of(sinks: Sequence[Sink]) -> list[Archive]:
    """Return the sinks that store pages as they were received."""
    return [sink for sink in sinks if isinstance(sink, Archive)]


async def _archive(archive: Archive, exchanges: Sequence[Exchange]) -> None:
    """Write to an archive. Whatever it raises, the exchanges count as not stored."""
    try:
        await archive.archive(exchanges)
    except SilklineError:
        raise
    except Exception as error:
        raise SinkUnavailable(
            f"{type(archive).__name__} failed: {type(error).__name__}: {message_of(error)}"
        ) from error


class RefusedItem(InvalidItem):
    """A sink failed in a way that looks as if an item were at fault."""


async def _write(sink: Sink, records: Sequence[Record], *, trusted: bool) -> None:
    """Write records to a sink. Whatever it raises, they count as not stored; its own `SilklineError` passes.

    While the sink is *trusted*, an error of a kind that data causes is attributed to an item.
    """
    try:
        await sink.write(records)
    except SilklineError:
        raise
    except Exception as error:
        kind = RefusedItem if trusted and isinstance(error, DATA_FAULTS) else SinkUnavailable
        raise kind(f"{type(sink).__name__} failed: {type(error).__name__}: {message_of(error)}") from error
