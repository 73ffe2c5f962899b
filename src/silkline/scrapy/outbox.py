"""The outbox: what the spider has to tell the frontier, gathered and sent many at once, in an order that loses nothing.

The reactor leaves requests, verdicts and errands here and goes on. What was left before a verdict is sent before it: the
links of a page are stored before the page is completed. If the process dies in between, the page is fetched again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from silkline.core.errors import RequestError, SilklineError
from silkline.core.lease import Admission, Lease, Refusal
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, Release, Verdict
from silkline.frontier.flows import FULL_AGAIN_AFTER
from silkline.frontier.frontier import Frontier
from silkline.frontier.history import Counts
from silkline.scrapy.patience import Patience

log = logging.getLogger(__name__)

MOMENT = 0.01
"""Seconds for which a request waits for others to go with it, while the reactor is busy."""
LAG = 0.001
"""A reactor that takes longer than this to come to what it is told is busy."""
MOST_AT_ONCE = 5_000
AGAIN = 1.0
"""Seconds after which a start request that found no room is offered again."""
UNTOLD = "what became of it could not be stored; the log says why"
"""Why a request is buried whose own verdict cannot be told."""

Errand = Callable[[Frontier], Awaitable[object]]
Ending = tuple[Lease, Verdict]


@dataclass(slots=True)
class News:
    """What the frontier answered, as far as the spider has to know."""

    seen: list[Request] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    full: list[Request] = field(default_factory=list)
    spilled: int = 0
    lost: list[Lease] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.seen or self.refused or self.full or self.spilled or self.lost)


class Outbox:
    """`push`, `settle` and `run_errand` are the reactor's; all else happens on the bridge's loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_reactor: Callable[[Callable[[], object]], object],
        patience: Patience,
        held: dict[Lease, None],
        tell: Callable[[News], None],
        sent: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._on_reactor = on_reactor
        self._patience = patience
        self._held = held
        self._tell = tell
        self._sent = sent
        self._items: deque[Request | Ending | Errand] = deque()
        self._flush = asyncio.Event()
        self._armed = False
        self._urgent = False
        self._closing = False
        self._sending = 0
        self._crowded: set[Lease] = set()
        self.ending: set[Lease] = set()
        """Leases whose verdicts are here, or on their way."""
        self._starts: set[int] = set()
        """Which of the requests here are to start with."""
        self._again: list[Request] = []
        """Those of them that found no room."""
        self.left = 0
        """How much was left here in all."""
        self.counts = Counts()
        """What the frontier took of us."""

    def __len__(self) -> int:
        """How much is not yet with the frontier."""
        return len(self._items) + self._sending + len(self._again)

    # ── on the reactor ──

    def push(self, request: Request, *, start: bool = False) -> None:
        """Store a request. One to *start* with was found on no page, so nobody but us would offer it again."""
        if start:
            self._starts.add(id(request))
        self.left += 1
        self._items.append(request)
        if not self._armed:
            self._arm()

    def settle(self, lease: Lease, verdict: Verdict, *, hurry: bool) -> None:
        """*hurry* when the spider has little else to do than to wait for what this brings."""
        self.ending.add(lease)
        self.left += 1
        self._items.append((lease, verdict))
        if hurry and not self._urgent:
            self._urgent = self._armed = True
            self._loop.call_soon_threadsafe(self._flush.set)
        elif not self._armed:
            self._arm()

    def run_errand(self, errand: Errand) -> None:
        """Something else to do with the frontier, before what is left here later."""
        self.left += 1
        self._items.append(errand)
        if not self._armed:
            self._arm()

    def _arm(self) -> None:
        """See to it that it is sent: at once if the reactor has nothing else to do, else soon, with what comes meanwhile."""
        self._armed = True
        left = time.monotonic()

        def look() -> None:
            busy = time.monotonic() - left > LAG
            with suppress(RuntimeError):  # the bridge has closed meanwhile, and sent everything
                self._loop.call_soon_threadsafe(self._flush_soon if busy else self._flush.set)

        self._on_reactor(look)

    # ── on the loop ──

    def _flush_soon(self) -> None:
        self._loop.call_later(MOMENT, self._flush.set)

    async def run(self, frontier: Frontier) -> None:
        """Send what is left here, until it is closed and all is sent."""
        while not self._closing or self._items or self._again:
            await self._flush.wait()
            await self._send(frontier)

    def close(self) -> None:
        """End `run` as soon as all is sent."""
        self._closing = True
        self._flush.set()

    async def _send(self, frontier: Frontier) -> None:
        """Send all that is here now."""
        self._flush.clear()
        self._armed = self._urgent = False  # before looking: what is left here from now on wakes us again
        again = bool(self._again)
        while (count := min(len(self._items), MOST_AT_ONCE)) or again:
            again = False
            self._sending = count
            batch = [self._items.popleft() for _ in range(count)]
            await self._deliver(frontier, batch)
            self._sending = 0
            self._sent()

    async def _deliver(self, frontier: Frontier, batch: list[Request | Ending | Errand]) -> None:
        news = News()
        requests = [item for item in batch if isinstance(item, Request)]
        endings = [item for item in batch if isinstance(item, tuple)]
        for item in batch:
            if not isinstance(item, Request | tuple):
                await self._do(partial(item, frontier))
        if requests or self._again:
            await self._offer(frontier, requests, news)
        if endings:
            await self._end(frontier, endings, news)
        if news:
            self._tell(news)

    async def _do(self, errand: Callable[[], Awaitable[object]]) -> None:
        try:
            await self._patience.persist(errand)
        except RequestError as error:
            log.warning("%s", error)

    async def _offer(self, frontier: Frontier, requests: list[Request], news: News) -> None:
        again, self._again = self._again, []
        requests = again + requests
        answers = await self._patience.persist(partial(frontier.enqueue, requests, spill=True))
        news.refused += answers.refusals
        for request, answer in zip(requests, answers, strict=True):
            if answer is Admission.SEEN:
                news.seen.append(request)
            elif answer is Admission.FULL:
                news.full.append(request)
            elif answer is Admission.ADDED and id(request) not in self._starts:
                self.counts.links += 1
        if answers.spilled:  # they are safe, and come in by themselves
            news.spilled, news.full = len(news.full), []
        elif news.full:
            self._make_room(news.full)
        if self._starts:
            self._starts.difference_update({id(request) for request in requests} - {id(one) for one in self._again})

    def _make_room(self, full: list[Request]) -> None:
        """Pages that may have found links for which there is no room are put back, to find them again.

        What no page found is offered again by us.
        """
        starts = [request for request in full if id(request) in self._starts]
        if starts:
            self._again += starts
            self._loop.call_later(AGAIN, self._flush.set)
        if len(starts) < len(full):
            self._crowded.update(self._held)

    async def _end(self, frontier: Frontier, endings: list[Ending], news: News) -> None:
        if self._crowded:
            endings = [(lease, self._put_back(lease, verdict)) for lease, verdict in endings]
        await self._settle(frontier, endings, news)
        for lease, _ in endings:
            self._held.pop(lease, None)
            self.ending.discard(lease)

    async def _settle(self, frontier: Frontier, endings: list[Ending], news: News) -> None:
        """Settle them together. If one of them cannot be told, whatever is wrong with it, the others still are."""
        try:
            settlement = await self._patience.persist(partial(frontier.settle, endings))
        except Exception as error:
            if isinstance(error, SilklineError) and not isinstance(error, RequestError):
                raise  # the crawl is gone, or from a later version
            for some in _apart(endings, error):
                await self._settle(frontier, some, news)
            return
        news.lost += settlement.lost
        self._count_ends(endings, settlement.lost)
        news.seen += [
            link
            for link, answer in zip(_links(endings), settlement.links, strict=True)
            if answer is Admission.SEEN and isinstance(link, Request)
        ]
        news.refused += settlement.links.refusals

    def _count_ends(self, endings: list[Ending], lost: list[Lease]) -> None:
        ours = set(lost)
        self.counts.lost += len(ours)
        for lease, verdict in endings:
            if lease not in ours:
                self.counts.ended += isinstance(verdict, Complete | Bury)
                self.counts.buried += isinstance(verdict, Bury)

    def _put_back(self, lease: Lease, verdict: Verdict) -> Verdict:
        if lease not in self._crowded:
            return verdict
        self._crowded.discard(lease)
        return Release(FULL_AGAIN_AFTER) if isinstance(verdict, Complete | Bury) else verdict


def _apart(endings: list[Ending], error: Exception) -> list[list[Ending]]:
    """Two halves, one of which will do; of one ending another, which will."""
    if len(endings) > 1:
        return [endings[: len(endings) // 2], endings[len(endings) // 2 :]]
    [(lease, verdict)] = endings
    if isinstance(verdict, Bury) and verdict.reason == UNTOLD:
        raise error  # it is not the verdict
    log.error("%s is buried, because what became of it cannot be stored: %s: %s", lease.url, verdict, error)
    return [[(lease, Bury(UNTOLD))]]


def _links(endings: list[Ending]) -> list[Request | str]:
    """As `frontier.settle` counts them: the first verdict on a lease holds."""
    first: dict[Lease, Verdict] = {}
    for lease, verdict in endings:
        first.setdefault(lease, verdict)
    return [link for verdict in first.values() if isinstance(verdict, Complete) for link in verdict.links]
