"""Prefetching: requests are claimed ahead, so that the spider never waits for one while the crawl has some."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

from silkline.core.lease import ISOLATE_FOR, Lease, Leases
from silkline.core.verdict import Release
from silkline.frontier.frontier import Frontier
from silkline.runtime.leases import LINGER, Claimer, HeldLeases, Suspects, Vacater
from silkline.runtime.places import Places
from silkline.runtime.settling import Retrier
from silkline.runtime.start_windows import StartReports, StartWindow, StartWindows
from silkline.scrapy.convert.settings import PluginOptions

CLAIM_WAIT = 10.0
"""Seconds for which one claim waits for requests."""
LOOK_EVERY = 0.25
"""Seconds between two claims while this process has pages in progress and the crawl had nothing else."""
TIMER_MARGIN = 0.1
"""Seconds by which a timer may fire too early."""


class Prefetch:
    """`take`, `sent` and `download_ended` are called on the reactor; all else runs on the bridge's loop.

    It claims as many requests as may be downloaded at the same time; some more, if requests need no delay between them. If they
    do, `take` returns a request in its start window or not at all. *missed* is called on the reactor with each request that
    the reactor was too busy to start, and with its release; with None if this counts as a failed attempt. *arrived* is called
    when there are requests to take.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_reactor: Callable[[Callable[[], object]], object],
        retrier: Retrier,
        held: HeldLeases,
        arrived: Callable[[], None],
        missed: Callable[[Lease, Release | None], None],
        options: PluginOptions,
    ) -> None:
        self._loop = loop
        self._on_reactor = on_reactor
        self._retrier = retrier
        self._held = held
        self._arrived = arrived
        self._missed = missed
        self.limit = options.concurrency
        self._some_delays = options.obey_robots or any(pace.get("delay") for pace in options.slots.values())
        """Whether hosts may have delays though the crawl has none."""
        self._ahead = self._ahead_of(options.politeness.delay)
        self._starts = StartWindows(options.politeness.delay, options.lease, reported=True)
        self._reports = StartReports(self._starts)
        self._ready: deque[tuple[Lease, StartWindow]] = deque()
        self._not_open_yet: dict[Lease, StartWindow] = {}
        """Requests whose start windows have not opened yet."""
        self._taken: dict[Lease, StartWindow] = {}
        """Requests that were taken and are not sent yet, if they have a delay."""
        self._lost: set[Lease] = set()
        self._room = asyncio.Event()
        self._looking = asyncio.Event()
        self._waiting = False
        self._claimer = Claimer(held.hold)  # if the claim is cancelled, the bridge releases what is held
        self._suspects = Suspects()
        self._alone = False
        """Whether nothing may be claimed because of a request with a strike; see `Suspects.forbid_claims`."""
        self.paused = False
        """Whether nothing is claimed: an operator has ordered it, or the spider closes."""
        self._downloading = 0
        self._underfilled = False
        """Whether the last claim returned fewer requests than there was room for."""
        self.places = Places()
        self.holds_reserve = options.politeness.concurrency < options.concurrency and self._ahead > 0
        """Whether hosts reach their cap before the downloader is full. Otherwise requests in reserve would be of no use."""
        self._vacater = Vacater(
            lambda: self._underfilled,
            linger=lambda: 0.0 if self._ahead else LINGER,
            report=self.places.report,
            vacated=self.look,
        )
        self.claimed = 0
        """How many requests were claimed so far."""
        self._batch = max(1, self.limit // 4)

    def __len__(self) -> int:
        return len(self._ready) + len(self._not_open_yet)

    # ── on the reactor ──

    @property
    def room(self) -> int:
        """How many more requests could be downloaded at the same time."""
        return 0 if self.paused else self.limit - len(self) - self._downloading

    @property
    def nearly_empty(self) -> bool:
        """Whether the spider is about to run out of requests to download."""
        return not len(self) and self._downloading * 2 <= self.limit

    def take(self) -> Lease | None:
        """Return the next request to download, if there is one that can start in its window."""
        while self._ready:
            lease, window = self._ready.popleft()
            if lease in self._lost:
                self._lost.discard(lease)
                continue
            if window.missed:
                self._missed(lease, self._starts.missed(lease))
                continue
            self._starts.begun(lease)
            if window.slack:
                self._taken[lease] = window
            self._downloading += 1
            self._wake()
            return lease
        return None

    def sent(self, lease: Lease) -> None:
        """Note that Scrapy sends a request that was taken: the reactor writes it to the connection in its next turn."""
        window = self._taken.pop(lease, None)
        if window is not None and self._starts.sending(lease):
            self._on_reactor(lambda: self._on_reactor(partial(self._report_start, lease, window)))

    def _report_start(self, lease: Lease, window: StartWindow) -> None:
        start = self._starts.start_of(lease, window)
        if start is not None:
            with suppress(RuntimeError):  # the bridge has closed meanwhile
                self._loop.call_soon_threadsafe(self._reports.add, start)

    def download_ended(self, lease: Lease | None = None, *, responded: bool | None = None) -> None:
        """Note that a request that was taken has a response, or none, or was replaced; without *lease*, that it was not sent."""
        self._downloading -= 1
        if lease is not None:
            self._starts.ended(lease, responded=responded)
        has_place = lease is None or responded is None or self.places.downloaded(lease)
        if lease is not None and responded and has_place and self._underfilled:
            self._loop.call_soon_threadsafe(self._vacater.downloaded, lease)
        self._wake()

    def not_sent(self, lease: Lease) -> None:
        """Note that a request that was taken is not sent."""
        self.places.downloaded(lease)
        self.download_ended()

    def _wake(self) -> None:
        if self._waiting and self._wanted():
            self._waiting = False
            self._loop.call_soon_threadsafe(self._room.set)

    # ── on both ──

    def _wanted(self) -> int:
        """Return how many requests to claim: none while there are others and only a few could be claimed."""
        if self.paused or self._alone:
            return 0
        ready = len(self)
        wanted = self.limit + self._ahead - ready - self._downloading
        return 0 if wanted <= 0 or (ready and wanted < self._batch) else wanted

    # ── on the loop ──

    async def run(self, frontier: Frontier) -> None:
        """Claim requests, report their starts, and vacate the places of downloaded pages, until cancelled."""
        work = (self._claim_more(frontier), self._vacater.run(frontier), self._reports.run(frontier))
        parts = [asyncio.ensure_future(part) for part in work]
        try:
            await asyncio.gather(*parts)
        finally:  # if one has failed, the others must end too: it may be run again, on another frontier
            for part in parts:
                part.cancel()

    async def _claim_more(self, frontier: Frontier) -> None:
        while True:
            wanted = self._wanted()
            if not wanted:
                await self._wait_for_room()
                continue
            await self._claim(frontier, wanted)

    def look(self) -> None:
        """Claim soon: this process has just changed the crawl."""
        self._looking.set()

    def ended(self, leases: Iterable[Lease]) -> None:
        """Forget leases that are no longer held."""
        leases = list(leases)
        for lease in leases:
            self._taken.pop(lease, None)  # a middleware has replied, and it was never sent
        self._vacater.drop(leases)
        self.places.drop(leases)
        if self._suspects.drop(leases):
            self._claimer.interrupt()  # it claims no suspect, and waits
        self._check_suspects()

    def _check_suspects(self) -> None:
        was_alone = self._alone
        self._alone = self._suspects.forbid_claims(busy=len(self._held) > 0)
        if was_alone and not self._alone:
            self._waiting = False
            self._room.set()

    async def _claim(self, frontier: Frontier, wanted: int) -> None:
        """Claim requests as soon as there are some.

        While this process has pages in progress, it claims without waiting: it notices before the notifier that a page has ended,
        which frees a place or adds links. If hosts have a delay, or if it has no pages in progress, it waits in the claim.
        """
        self._keep_delay(frontier.layout.settings.politeness.delay)
        slack, suspects = self._starts.slack, self._suspects.wanted(busy=len(self._held) > 0)
        if self._ahead and self._held:
            self._looking.clear()
            reserve = self.places.wanted(self.limit // 2) if self.holds_reserve else None
            claim = partial(frontier.claim, wanted, slack=slack, suspects=suspects, reserve=reserve)
            leases = await self._claim_unless_paused(claim)
            self._add(leases, wanted, slack)
            if len(leases) < wanted:  # the crawl has no more until one completes, is downloaded or is stored
                await self._wait_for_our_own()
        else:
            self._underfilled = True  # while the claim waits
            claim = partial(frontier.claim, wanted, wait=CLAIM_WAIT, slack=slack, suspects=suspects)
            self._add(await self._claim_unless_paused(claim), wanted, slack)

    def _keep_delay(self, delay: float) -> None:
        """Apply a delay that an operator may have changed."""
        self._starts.set_delay(delay)
        self._ahead = self._ahead_of(delay)

    def _ahead_of(self, delay: float) -> int:
        return 0 if delay or self._some_delays else self.limit // 4

    async def _claim_unless_paused(self, claim: Callable[[], Awaitable[Leases]]) -> Leases:
        """Return the leases of a claim; none if it is interrupted."""
        return await self._claimer.claim(partial(self._retrier.retry, claim))

    def pause(self) -> None:
        """Claim nothing more, and interrupt the claim in progress."""
        self.paused = True
        self._claimer.interrupt()

    def resume(self) -> None:
        """Claim again."""
        self.paused = self._waiting = False
        self._room.set()

    async def _wait_for_our_own(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY):
                await self._looking.wait()

    def _add(self, leases: Leases, wanted: int, slack: float) -> None:
        self._underfilled = len(leases) < wanted
        self._held.hold(leases)
        unwanted = self.places.add(leases)
        for lease in unwanted:
            self._missed(lease, Release())
        self._suspects.add(leases)
        if leases.isolate:
            self._loop.call_later(ISOLATE_FOR + TIMER_MARGIN, self._check_suspects)
        self._check_suspects()
        self.claimed += len(leases)
        windows = self._starts.windows(leases, slack)
        now = time.monotonic()
        for lease, window in zip(leases, windows, strict=True):
            if lease in unwanted:
                continue
            if window.opens > now:
                self._not_open_yet[lease] = window
                self._loop.call_later(window.opens - now, self._open, lease)
            else:
                self._ready.append((lease, window))
        if self._ready:
            self._arrived()

    def _open(self, lease: Lease) -> None:
        window = self._not_open_yet.pop(lease, None)
        if window is not None:  # else it was lost or released meanwhile
            self._ready.append((lease, window))
            self._arrived()

    async def _wait_for_room(self) -> None:
        self._room.clear()
        self._waiting = True
        if self._wanted():  # there was room before `_waiting` was set
            self._waiting = False
            return
        await self._room.wait()

    def in_progress(self) -> list[Lease]:
        """Return the leases of requests that Scrapy works on, the oldest first."""
        here = {lease for lease, _ in self._ready.copy()}.union(
            self._not_open_yet
        )  # the reactor may take one meanwhile
        return [lease for lease in self._held if lease not in here]

    def drop_lost(self, leases: list[Lease]) -> None:
        """Remove requests whose leases are lost, unless they were taken: those end with a verdict that has no effect."""
        ready = {lease for lease, _ in self._ready.copy()}  # the reactor may take one meanwhile
        dropped = [lease for lease in leases if lease in ready or self._not_open_yet.pop(lease, None) is not None]
        self._lost.update(lease for lease in dropped if lease in ready)
        self._held.drop(dropped)
        self.ended(dropped)

    def take_all(self) -> list[Lease]:
        """Remove and return the leases of all requests that were not taken."""
        leases = [*self._not_open_yet, *(lease for lease, _ in self._ready)]
        self._not_open_yet.clear()
        self._ready.clear()
        for lease in leases:
            self.places.downloaded(lease)  # those that Scrapy has taken get the places
        return leases
