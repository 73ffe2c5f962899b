"""The intake: requests leased ahead of need, so that the spider never waits for one while there are some."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from silkline.core.lease import Lease
from silkline.frontier.frontier import Frontier
from silkline.scrapy.options import Options
from silkline.scrapy.patience import Patience
from silkline.worker.starts import Starts, Window

WAIT = 10.0
"""Seconds for which one claim waits for something to claim."""
LINGER = 0.05
"""Seconds that a downloaded page may take to be settled, where hosts have a pace, before its place is given away."""
LOOK_EVERY = 0.25
"""Seconds between two looks for what others bring, while we have pages of our own under way."""


class Intake:
    """`take` and `landed` are the reactor's; all else happens on the bridge's loop.

    Of the requests that may be downloaded at the same time, those that are not are claimed; and some more ahead, where
    nothing is measured in seconds between two requests. Where it is, a request is handed out in its window or not at all:
    *missed* is told on the reactor of those for which it was too busy.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        patience: Patience,
        held: dict[Lease, None],
        arrived: Callable[[], None],
        missed: Callable[[Lease], None],
        options: Options,
    ) -> None:
        self._loop = loop
        self._patience = patience
        self._held = held
        self._arrived = arrived
        self._missed = missed
        self.limit = options.concurrency
        self._ahead = 0 if options.politeness.delay or options.obey_robots else options.concurrency // 4
        self._starts = Starts(options.politeness.delay, options.lease)
        self._ready: deque[tuple[Lease, Window]] = deque()
        self._soon: dict[Lease, Window] = {}
        """Those whose windows have not opened yet."""
        self._lost: set[Lease] = set()
        self._room = asyncio.Event()
        self._looking = asyncio.Event()
        self._waiting = False
        self._claiming: asyncio.Future[list[Lease]] | None = None
        self.resting = False
        """Whether nothing is claimed, as an operator has ordered."""
        self._downloading = 0
        self._short = False
        """Whether the last claim found less than there was room for."""
        self._landed: deque[Lease] = deque()
        self._some_landed = asyncio.Event()
        self.claimed = 0
        """How many were claimed in all."""
        self._batch = max(1, self.limit // 4)

    def __len__(self) -> int:
        return len(self._ready) + len(self._soon)

    # ── on the reactor ──

    @property
    def room(self) -> int:
        """How many more could be downloaded at the same time."""
        return 0 if self.resting else self.limit - len(self) - self._downloading

    @property
    def hungry(self) -> bool:
        """Whether the spider is about to run out of things to download."""
        return not len(self) and self._downloading * 2 <= self.limit

    def take(self) -> Lease | None:
        """The next request to download, if one is here that can begin in time."""
        while self._ready:
            lease, window = self._ready.popleft()
            if lease in self._lost:
                self._lost.discard(lease)
                continue
            if window.missed:
                self._starts.missed()
                self._missed(lease)
                continue
            self._starts.begun()
            self._downloading += 1
            self._wake()
            return lease
        return None

    def landed(self, lease: Lease | None = None) -> None:
        """One that was taken is downloaded, or (without its *lease*) will never be."""
        self._downloading -= 1
        if lease is not None and self._short:
            self._landed.append(lease)
            self._loop.call_soon_threadsafe(self._some_landed.set)
        self._wake()

    def _wake(self) -> None:
        if self._waiting and self._wanted():
            self._waiting = False
            self._loop.call_soon_threadsafe(self._room.set)

    # ── on both ──

    def _wanted(self) -> int:
        """How many to claim: few are not worth a call while there are others."""
        if self.resting:
            return 0
        ready = len(self)
        wanted = self.limit + self._ahead - ready - self._downloading
        return 0 if wanted <= 0 or (ready and wanted < self._batch) else wanted

    # ── on the loop ──

    async def run(self, frontier: Frontier) -> None:
        """Claim what there is room for, and leave the places of what has landed, for ever."""
        await asyncio.gather(self._claim_more(frontier), self._leave_places(frontier))

    async def _leave_places(self, frontier: Frontier) -> None:
        """Callbacks and pipelines take their time; the sites are done with their pages, and may be asked for the next."""
        while True:
            await self._some_landed.wait()
            self._some_landed.clear()
            if not self._ahead:
                await asyncio.sleep(LINGER)
            landed = [self._landed.popleft() for _ in range(len(self._landed))]
            leases = [lease for lease in landed if lease in self._held]
            if leases:
                await self._patience.persist(partial(frontier.vacate, leases))
                self.look()

    async def _claim_more(self, frontier: Frontier) -> None:
        while True:
            wanted = self._wanted()
            if not wanted:
                await self._wait_for_room()
                continue
            await self._claim(frontier, wanted)

    def look(self) -> None:
        """Something of ours has just reached the frontier."""
        self._looking.set()

    async def _claim(self, frontier: Frontier, wanted: int) -> None:
        """Claim as soon as there is something.

        While we have pages of our own under way, it is their end that makes room or brings links, and we know of it before
        any bell: then we look ourselves. Where hosts have a pace, and while we have nothing, the bell knows better.
        """
        slack = self._starts.slack
        if self._ahead and self._held:
            self._looking.clear()
            leases = await self._unless_resting(partial(frontier.claim, wanted, slack=slack))
            self._add(leases, wanted, slack)
            if not leases:
                await self._wait_for_our_own()
        else:
            self._short = True  # until there is enough, which may take a while
            claim = partial(frontier.claim, wanted, wait=WAIT, slack=slack)
            self._add(await self._unless_resting(claim), wanted, slack)

    async def _unless_resting(self, claim: Callable[[], Awaitable[list[Lease]]]) -> list[Lease]:
        """The claim's answer; nothing if we are to rest meanwhile."""
        self._claiming = claiming = asyncio.ensure_future(self._patience.persist(claim))
        try:
            return await claiming
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                if claiming.done() and not claiming.cancelled() and not claiming.exception():  # in the very moment
                    self._held.update(dict.fromkeys(claiming.result()))  # whoever ends us gives them back
                raise
            return []  # it was broken off
        finally:
            self._claiming = None

    def rest(self) -> None:
        """Claim nothing more. A claim that is under way is broken off, and gives back what it brings."""
        self.resting = True
        if self._claiming is not None:
            self._claiming.cancel()

    def go_on(self) -> None:
        """Claim again."""
        self.resting = self._waiting = False
        self._room.set()

    async def _wait_for_our_own(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY):
                await self._looking.wait()

    def _add(self, leases: list[Lease], wanted: int, slack: float) -> None:
        self._short = len(leases) < wanted
        self._held.update(dict.fromkeys(leases))
        self.claimed += len(leases)
        windows = self._starts.windows(leases, slack)
        now = time.monotonic()
        for lease, window in zip(leases, windows, strict=True):
            if window.opens > now:
                self._soon[lease] = window
                self._loop.call_later(window.opens - now, self._open, lease)
            else:
                self._ready.append((lease, window))
        if self._ready:
            self._arrived()

    def _open(self, lease: Lease) -> None:
        window = self._soon.pop(lease, None)
        if window is not None:  # else it was lost or given back meanwhile
            self._ready.append((lease, window))
            self._arrived()

    async def _wait_for_room(self) -> None:
        self._room.clear()
        self._waiting = True
        if self._wanted():  # there was room before we said that we wait for it
            self._waiting = False
            return
        await self._room.wait()

    def handed_out(self) -> list[Lease]:
        """What was claimed and is in Scrapy's hands, the oldest first."""
        here = {lease for lease, _ in self._ready.copy()}.union(self._soon)  # the reactor may take one while we look
        return [lease for lease in self._held if lease not in here]

    def lose(self, leases: list[Lease]) -> None:
        """Others hold these by now: those that are still here are not handed out, and not ours to end."""
        ready = {lease for lease, _ in self._ready.copy()}  # the reactor may take one while we look
        for lease in leases:
            if lease in ready:
                self._lost.add(lease)
            elif self._soon.pop(lease, None) is None:
                continue
            self._held.pop(lease, None)

    def empty(self) -> list[Lease]:
        """Take everything out that was not handed out."""
        leases = [*self._soon, *(lease for lease, _ in self._ready)]
        self._soon.clear()
        self._ready.clear()
        return leases
