"""The outbox: requests, verdicts and calls of the spider, sent to the frontier in batches.

The reactor puts them here and continues. Everything that was put here before a verdict is sent before it: the links of a page
are stored before the page is completed. If the process dies in between, the page is fetched again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, Release, Verdict
from silkline.errors import RequestError, UnknownCrawl
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.enqueue import Admission, Refusal
from silkline.frontier.verbs.history import Counts, HandlerCounts
from silkline.frontier.verbs.settle import FULL_AGAIN_AFTER, Settlement
from silkline.runtime.counters import of_handler
from silkline.runtime.leases import HeldLeases
from silkline.runtime.places import Places
from silkline.runtime.settling import BatchSettler, DeadLimitWarning, Ending, Endings, Retrier, count_endings

log = logging.getLogger(__name__)

BATCH_DELAY = 0.01
"""Seconds for which a request waits for others of its batch, while the reactor is busy."""
BUSY_LAG = 0.001
"""Seconds after which a reactor that has not called a function is considered busy."""
MAX_BATCH = 5_000
DEFAULT_CALLBACK = "parse"
"""The callback of a request that names none."""
RETRY_FULL_AFTER = 1.0
"""Seconds after which a start request that did not fit in the crawl is sent again."""

T = TypeVar("T")
FrontierCall = Callable[[Frontier], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class LaterCall:
    """A call that comes after everything that was put into the outbox before it."""

    call: FrontierCall[object]


@dataclass(slots=True)
class DeliveryReport:
    """What the spider must know of the frontier's replies to a batch."""

    seen: list[Request] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    full: list[Request] = field(default_factory=list)
    spilled: int = 0
    lost: list[Lease] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.seen or self.refused or self.full or self.spilled or self.lost)


class Outbox:
    """`push`, `settle` and `call_frontier` are called on the reactor; all else runs on the bridge's loop.

    *report* gets the replies that the spider must know. *sent* is called after each batch, with the leases that have ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_reactor: Callable[[Callable[[], object]], object],
        retrier: Retrier,
        held: HeldLeases,
        places: Places,
        report: Callable[[DeliveryReport], None],
        sent: Callable[[list[Lease]], None],
    ) -> None:
        self._loop = loop
        self._on_reactor = on_reactor
        self._retrier = retrier
        self._held = held
        self._places = places
        self._on_report = report
        self._sent = sent
        self._items: deque[Request | Ending | FrontierCall[object] | LaterCall] = deque()
        self._flush = asyncio.Event()
        self._scheduled = False
        self._urgent = False
        self._closing = False
        self._sending = 0
        self._settler: BatchSettler
        self._dead_limit: DeadLimitWarning
        self._report = DeliveryReport()
        """Of the batch that is being sent."""
        self._ended: list[Lease] = []
        """The leases of that batch that have ended."""
        self._to_put_back: set[Lease] = set()
        """Leases of pages whose links may not have fit."""
        self.settling: set[Lease] = set()
        """Leases whose verdicts are here or are being sent."""
        self._starts: set[int] = set()
        """The ids of the start requests that are here."""
        self._full_starts: list[Request] = []
        """Start requests that did not fit in the crawl."""
        self.total = 0
        """How much was put here so far."""
        self.counts = Counts()
        """What the frontier has stored."""
        self.handlers: dict[str, HandlerCounts] = {}
        """Failures that the frontier has stored, by callback."""

    def __len__(self) -> int:
        """Return how much is not stored yet."""
        return len(self._items) + self._sending + len(self._full_starts)

    # ── on the reactor ──

    def push(self, request: Request, *, start: bool = False) -> None:
        """Store a request soon. A *start* request has no parent page that could yield it again."""
        if start:
            self._starts.add(id(request))
        self.total += 1
        self._items.append(request)
        if not self._scheduled:
            self._schedule_flush()

    def settle(self, lease: Lease, verdict: Verdict, *, hurry: bool) -> None:
        """Settle a lease soon; at once with *hurry*, when the spider has little else to do."""
        self.settling.add(lease)
        self.total += 1
        self._items.append((lease, verdict))
        if hurry and not self._urgent:
            self._urgent = self._scheduled = True
            self._loop.call_soon_threadsafe(self._flush.set)
        elif not self._scheduled:
            self._schedule_flush()

    def call_frontier(self, call: FrontierCall[object] | LaterCall) -> None:
        """Call the frontier before anything that is put here later; a `LaterCall` after anything that was put here before."""
        self.total += 1
        self._items.append(call)
        if not self._scheduled:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        """Send soon: at once if the reactor has nothing else to do, else together with what comes meanwhile."""
        self._scheduled = True
        since = time.monotonic()

        def look() -> None:
            busy = time.monotonic() - since > BUSY_LAG
            with suppress(RuntimeError):  # the bridge has closed meanwhile, and sent everything
                self._loop.call_soon_threadsafe(self._flush_later if busy else self._flush.set)

        self._on_reactor(look)

    # ── on the loop ──

    def _flush_later(self) -> None:
        self._loop.call_later(BATCH_DELAY, self._flush.set)

    async def run(self, frontier: Frontier) -> None:
        """Send what is put here, until it is closed and empty."""
        retry = self._retrier.retry
        self._dead_limit = DeadLimitWarning(frontier.crawl, "SILKLINE_DEAD_LIMIT")
        settle = partial(self._settle, frontier)
        self._settler = BatchSettler(settle, retry, settled=self._settled, ended=self._note_ended)
        while not self._closing or self._items or self._full_starts:
            await self._flush.wait()
            await self._send(frontier)

    async def _settle(self, frontier: Frontier, endings: Endings) -> Settlement:
        await self._places.report(frontier)
        return await frontier.settle(endings)

    def close(self) -> None:
        """End `run` as soon as everything is sent."""
        self._closing = True
        self._flush.set()

    async def _send(self, frontier: Frontier) -> None:
        """Send everything that is here now."""
        self._flush.clear()
        self._scheduled = self._urgent = False  # before looking: what is put here from now on wakes `run` again
        again = bool(self._full_starts)
        while (count := min(len(self._items), MAX_BATCH)) or again:
            again = False
            self._sending = count
            batch = [self._items.popleft() for _ in range(count)]
            try:
                await self._deliver(frontier, batch)
            except UnknownCrawl:
                self._items.extendleft(reversed(batch))  # for the crawl that may be created again
                self._flush.set()
                raise
            finally:
                self._sending = 0
            ended, self._ended = self._ended, []
            self._sent(ended)

    async def _deliver(
        self, frontier: Frontier, batch: list[Request | Ending | FrontierCall[object] | LaterCall]
    ) -> None:
        self._report = report = DeliveryReport()
        requests = [item for item in batch if isinstance(item, Request)]
        endings = [item for item in batch if isinstance(item, tuple)]
        for item in batch:
            if not isinstance(item, Request | tuple | LaterCall):
                await self._call(partial(item, frontier))
        if requests or self._full_starts:
            await self._enqueue(frontier, requests, report)
        if endings:
            await self._settler.settle([(lease, self._put_back(lease, verdict)) for lease, verdict in endings])
        for item in batch:
            if isinstance(item, LaterCall):
                await self._call(partial(item.call, frontier))
        if report:
            self._on_report(report)

    async def _call(self, call: Callable[[], Awaitable[object]]) -> None:
        try:
            await self._retrier.retry(call)
        except RequestError as error:
            log.warning("%s", error)

    async def _enqueue(self, frontier: Frontier, requests: list[Request], report: DeliveryReport) -> None:
        again, self._full_starts = self._full_starts, []
        requests = again + requests
        replies = await self._retrier.retry(partial(frontier.enqueue, requests, spill=True))
        report.refused += replies.refusals
        for request, reply in zip(requests, replies, strict=True):
            if reply is Admission.SEEN:
                report.seen.append(request)
            elif reply is Admission.FULL:
                report.full.append(request)
            elif reply is Admission.ADDED and id(request) not in self._starts:
                self.counts.links += 1
        if replies.spilled:  # they are stored in the overflow, and are enqueued from there
            report.spilled, report.full = len(report.full), []
        elif report.full:
            self._retry_full(report.full)
        if self._starts:
            kept = {id(request) for request in self._full_starts}
            self._starts.difference_update({id(request) for request in requests} - kept)

    def _retry_full(self, full: list[Request]) -> None:
        """Send start requests that did not fit again. Pages that may have yielded the others are put back."""
        starts = [request for request in full if id(request) in self._starts]
        if starts:
            self._full_starts += starts
            self._loop.call_later(RETRY_FULL_AFTER, self._flush.set)
        if len(starts) < len(full):
            self._to_put_back.update(self._held)

    def _put_back(self, lease: Lease, verdict: Verdict) -> Verdict:
        """Return the verdict; a release if links of the page may not have fit."""
        if lease not in self._to_put_back:
            return verdict
        self._to_put_back.discard(lease)
        return Release(FULL_AGAIN_AFTER) if isinstance(verdict, Complete | Bury) else verdict

    def _settled(self, endings: Endings, settlement: Settlement, unreached: Collection[Lease]) -> None:
        report = self._report
        report.lost += settlement.lost
        report.refused += settlement.links.refusals
        report.seen += [
            link
            for link, reply in zip(_links(endings), settlement.links, strict=True)
            if reply is Admission.SEEN and isinstance(link, Request)
        ]
        count_endings(self.counts, endings, settlement, unreached, self._handler_of)
        self._dead_limit.note(settlement)

    def _handler_of(self, lease: Lease) -> HandlerCounts:
        return of_handler(self.handlers, lease.request.handler or DEFAULT_CALLBACK)

    def _note_ended(self, leases: Sequence[Lease]) -> None:
        self._held.drop(leases)
        self.settling.difference_update(leases)
        self._ended += leases


def _links(endings: Endings) -> list[Request | str]:
    """Return the links of a batch in the order of `Settlement.links`. Only the first verdict on a lease counts."""
    first: dict[Lease, Verdict] = {}
    for lease, verdict in endings:
        first.setdefault(lease, verdict)
    return [link for verdict in first.values() if isinstance(verdict, Complete) for link in verdict.links]
