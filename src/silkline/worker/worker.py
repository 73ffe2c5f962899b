"""Worker: claims what it can start at once, attempts it, and hands what came of it to the settler."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from silkline.core.errors import StoreUnavailable
from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.frontier.frontier import DEFAULT_LOCK, Frontier
from silkline.frontier.history import Counts
from silkline.frontier.roster import Order
from silkline.frontier.sync import SyncFrontier
from silkline.sinks.sink import Sink
from silkline.worker.answers import HostAnswers
from silkline.worker.attempt import Attempt, Tools, given_up
from silkline.worker.crawl import Crawl
from silkline.worker.failures import Failures, is_to_stop
from silkline.worker.fetch.fetcher import Fetcher, Response
from silkline.worker.gate import Gate, getter
from silkline.worker.heartbeat import Heartbeat
from silkline.worker.hops import Hops, time_for
from silkline.worker.landings import Landings
from silkline.worker.links import Links
from silkline.worker.middleware import Fetch, wrap
from silkline.worker.outcome import Outcome
from silkline.worker.pace import Pace
from silkline.worker.presence import Presence, counts_of
from silkline.worker.robots import RobotsKeeper
from silkline.worker.settler import Settler
from silkline.worker.starts import Starts, Window
from silkline.worker.tally import Tally

log = logging.getLogger(__name__)

SHORTEST_WAIT, CLAIM_WAIT = 0.1, 1.0
"""Seconds to wait for work before it is asked whether the crawl is finished: the longer the longer nothing came."""
MOMENT = 0.005
BATCHES = 4
"""A worker whose places are nearly all taken waits a moment and claims for several at once; no more claims than this for each
round of its places."""
AHEAD = 4
"""How many times its concurrency a worker may have waiting to be stored: what it holds in memory is bounded."""
STALLED, HUNG = 15.0, 120.0
"""Seconds without an answer to a claim, though there was room for pages, after which the claim loop counts as stalled; and
after which it is hopeless to wait for one."""
LAST_WORD = 2.0
"""Seconds that a worker which is cancelled takes to give back what it holds, and pages to end that were told to."""

Observe = Callable[[Lease, Callable[[], Awaitable[Outcome]]], Awaitable[Outcome]]
"""Something around every attempt that looks on, as tracing does: it calls what it is given and answers what that answers."""


class Running(NamedTuple):
    """An attempt under way."""

    task: asyncio.Task[None]
    since: float


class Worker:
    """Works on a crawl until it is finished, or until it is stopped.

    ::

        async with await Frontier.open(crawl="books") as frontier:
            await Worker(crawl, frontier, sinks=[open_sink("books.jsonl")]).run()
    """

    def __init__(
        self,
        crawl: Crawl,
        frontier: Frontier,
        *,
        sinks: Sequence[Sink] = (),
        pace: Pace | None = None,
        forever: bool = False,
        observe: Observe | None = None,
    ) -> None:
        crawl.check_ready()
        self.crawl = crawl
        self.pace = pace or Pace()
        self.tally = Tally(scripts=frontier.timings)
        self.answers = HostAnswers()
        self._frontier = frontier
        self._observe = observe
        self._sinks = sinks
        self._forever = forever
        self._running: dict[Lease, Running] = {}
        self._late: set[Lease] = set()
        self._freed = asyncio.Event()
        self._stopping = False
        self.ordered = False
        """Whether it stops because an operator has ordered it."""
        self._quiet = False
        self._claim_trouble = ""
        self._looked = time.monotonic()  # when a claim was answered last, or there was no room for one
        self._turn = asyncio.Event()  # nothing of ours is under way any more, or we are to stop
        self._failures = Failures(crawl.retries, self.tally)
        self._settler = Settler(frontier, sinks, self.tally, self._settled, lambda: bool(self._running), self._failures)
        self._unsettled = 0
        self._short = False  # whether the last claim found less than there was room for
        self._landings = Landings(frontier, lambda: self._short)
        self._starts = Starts(frontier.plan.settings.politeness.delay, self.pace.lease)

    @property
    def counts(self) -> Counts:
        """What of its tally goes into the history of the crawl."""
        return counts_of(self.tally)

    @property
    def concurrency(self) -> int:
        return self.pace.concurrency

    @property
    def in_flight(self) -> int:
        """Pages under way."""
        return len(self._running)

    @property
    def trouble(self) -> str | None:
        """What keeps this worker from claiming, if anything does."""
        return self._settler.trouble

    @property
    def stall(self) -> str | None:
        """Why nothing is claimed though it should be, in words; None when all is well, or when it was ordered so."""
        if self._quiet or self._stopping:
            return None
        silent = time.monotonic() - self._looked
        late = f"no claim was answered for {silent:.0f} s" if silent > STALLED else None
        return self.trouble or self._claim_trouble or late

    @property
    def hung(self) -> bool:
        """Whether the claim loop stands still and nobody knows why: only a new process can mend that."""
        known = self._quiet or self._stopping or self.trouble or self._claim_trouble
        return not known and time.monotonic() - self._looked > HUNG

    @property
    def doing(self) -> str:
        """In a word: working, quiet or stopping."""
        return "stopping" if self._stopping else "quiet" if self._quiet else "working"

    @property
    def urls(self) -> list[str]:
        """The pages under way, the oldest first."""
        return [lease.url for lease in self._running]

    def obey(self, order: Order) -> None:
        """Do what an operator has ordered: be quiet (claim nothing more), work again, or stop."""
        if order == "stop" and not self._stopping:
            log.warning("stopping, as an operator has ordered")
            self.ordered = True
            self.stop()
        elif self._quiet != (order == "quiet"):
            self._quiet = order == "quiet"
            log.warning("%s, as an operator has ordered", "claiming nothing more" if self._quiet else "working again")
            self._freed.set()
            self._turn.set()

    def stop(self) -> None:
        """Claim nothing more, end what is under way within the limit, give back the rest."""
        self._stopping = True
        self._freed.set()
        self._turn.set()

    async def run(self) -> Tally:
        """Work until the crawl is finished or `stop` is called. Cancelled, it gives back at once what is under way."""
        fetcher = self.crawl.fetching.open()
        self._heartbeat = self._make_heartbeat()
        self._tools = self._make_tools(fetcher)
        settling = asyncio.create_task(self._settler.run())
        settling.add_done_callback(lambda _: self._freed.set())
        watching = [asyncio.create_task(self._end_late()), asyncio.create_task(self._landings.run())]
        self._heartbeat.start()
        presence = Presence(self, self._frontier)
        presence.start()
        try:
            await self._claim_until_done(settling)
            await self._drain(self.pace.drain)
            await self._settle_rest(settling)
        except (Exception, asyncio.CancelledError):
            await self._break_off(settling)
            raise
        finally:
            for task in (settling, *watching):
                task.cancel()
            await presence.leave()
            self._heartbeat.stop()
            await fetcher.close()
            await asyncio.to_thread(self._heartbeat.join)
            self.tally.blocked_seconds = self._heartbeat.blocked_seconds
        return self.tally

    async def _break_off(self, settling: asyncio.Task[None]) -> None:
        """Whoever runs us wants no more of it: give back what is under way, store what has ended, if that goes quickly."""
        self.stop()
        await self._drain(0)
        self._settler.close()
        await asyncio.wait([settling], timeout=LAST_WORD)

    async def _settle_rest(self, settling: asyncio.Task[None]) -> None:
        """Let the settler end its work; if it cannot and we are to stop, what it has is fetched again one day."""
        self._settler.close()
        await asyncio.wait([settling], timeout=self.pace.drain if self._stopping else None)
        if settling.done():
            settling.result()
        else:
            log.warning("%d pages could not be stored (%s); they will be fetched again", self._unsettled, self.trouble)

    def _make_heartbeat(self) -> Heartbeat:
        def beside() -> SyncFrontier:
            lease = self.pace.lease
            return SyncFrontier.open(self._frontier.url, crawl=self.crawl.name, create=False, lease=lease)

        loop = asyncio.get_running_loop()
        return Heartbeat(beside, loop, self._lost, self.pace.lease, self.pace.attempt_limit)

    def _make_tools(self, fetcher: Fetcher) -> Tools:
        fetching = self.crawl.fetching
        agent = fetching.agent(self.crawl.name)
        fetch = wrap(_with_headers(partial(fetcher.fetch, user_agent=agent), fetching.headers), self.crawl.middlewares)
        gate = self._make_gate(fetcher, agent) if fetching.obey_robots else None
        links, landed = Links(self.crawl.scope), self._landings.add
        notes = self.tally, self.answers, self._failures
        return Tools(self.crawl, fetch, gate, links, *notes, self._starts, random.Random(), landed)

    def _make_gate(self, fetcher: Fetcher, agent: str) -> Gate:
        delay, longest = self._frontier.plan.settings.politeness.delay, self.crawl.fetching.max_crawl_delay
        lock = DEFAULT_LOCK + time_for(delay)
        keeper = RobotsKeeper(self._frontier, agent, lock=lock, max_crawl_delay=longest)
        hops = Hops(getter(fetcher, agent), delay)
        return Gate(keeper, hops, self.crawl.retries, self.tally, self.answers)

    async def _claim_until_done(self, settling: asyncio.Task[None]) -> None:
        patience = SHORTEST_WAIT
        while not self._stopping and not settling.done():
            if 0 < self.in_flight > self.pace.concurrency - self.pace.concurrency // BATCHES:
                await asyncio.sleep(MOMENT)  # others are about to end: one claim for many
            if self._quiet:
                if not self._unsettled and not self._forever and await self._finished():
                    return
                await self._wait_for_room()
                continue
            room = self.pace.concurrency - self.in_flight
            if room < 1 or self.trouble or self._unsettled >= AHEAD * self.pace.concurrency:
                await self._wait_for_room()
                continue
            slack = self._starts.slack
            leases = await self._claim(room, patience, slack)
            self._short = len(leases) < room
            if leases:
                patience = SHORTEST_WAIT
                self._begin(leases, slack)
            elif not self._unsettled and not self._forever and await self._finished():
                return
            else:
                patience = min(patience * 2, CLAIM_WAIT)

    async def _wait_for_room(self) -> None:
        """Not for ever: whoever asks is to know that this loop goes round, however long the pages take."""
        self._freed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._freed.wait(), CLAIM_WAIT)
        self._looked = time.monotonic()

    async def _claim(self, room: int, wait: float, slack: float) -> list[Lease]:
        """What can be started now. Waits a moment for it, but not when nothing of ours is left or we are to stop."""
        self._turn.clear()
        claim = asyncio.ensure_future(self._frontier.claim(room, wait=wait, lease=self.pace.lease, slack=slack))
        turn = asyncio.ensure_future(self._turn.wait())
        turn.add_done_callback(lambda _: claim.cancel())
        try:
            leases = await claim
            self._looked, self._claim_trouble = time.monotonic(), ""
            return leases
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not claim.cancelled() or (task and task.cancelling()):
                self._put_back(claim)
                raise
            self._looked = time.monotonic()  # it was our turn to look elsewhere
            return []
        except StoreUnavailable as error:
            log.warning("nothing can be claimed: %s", error)
            self._claim_trouble = str(error)
            await asyncio.sleep(CLAIM_WAIT)
            return []
        finally:
            turn.cancel()

    def _put_back(self, claim: asyncio.Future[list[Lease]]) -> None:
        """We were cancelled, perhaps in the very moment in which the answer came."""
        if claim.done() and not claim.cancelled() and not claim.exception():
            for lease in claim.result():
                self._unsettled += 1
                self._settler.add(given_up(lease))

    async def _finished(self) -> bool:
        try:
            return await self._frontier.finished()
        except StoreUnavailable:
            return False

    def _begin(self, leases: list[Lease], slack: float) -> None:
        self._heartbeat.hold(leases)
        self._unsettled += len(leases)
        now = time.monotonic()
        for lease, window in zip(leases, self._starts.windows(leases, slack), strict=True):
            self._running[lease] = Running(asyncio.create_task(self._attempt(lease, window)), now)

    async def _attempt(self, lease: Lease, window: Window) -> None:
        """One page. Cancelled, it is given back; but not if it was cancelled because somebody else has it."""
        try:
            wait = window.opens - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            attempt = Attempt(lease, self._tools, window).run
            outcome = await (self._observe(lease, attempt) if self._observe else attempt())
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - of who looks on: attempts end well
            outcome = self._cut_short(lease) if is_to_stop(error) else self._derailed(lease, error)
        running = self._running.pop(lease, None)
        if running:
            self.tally.busy_seconds += time.monotonic() - running.since
        self._late.discard(lease)
        self._settler.add(outcome)
        self._freed.set()

    def _cut_short(self, lease: Lease) -> Outcome:
        if lease in self._late:
            return Outcome(lease, self._failures.took_too_long(lease, self.pace.attempt_limit))
        return given_up(lease)

    def _derailed(self, lease: Lease, error: BaseException) -> Outcome:
        return Outcome(lease, self._failures.failed(lease, "the attempt", error))

    async def _end_late(self) -> None:
        """Give up pages that take too long. One look at all now and then is cheaper than a timer for each."""
        limit = self.pace.attempt_limit
        while True:
            await asyncio.sleep(min(limit / 4, 5.0))
            now = time.monotonic()
            for lease, running in list(self._running.items()):
                if now - running.since > limit and lease not in self._late:
                    self._late.add(lease)
                    running.task.cancel()

    def _settled(self, leases: Sequence[Lease]) -> None:
        self._heartbeat.drop(leases)
        self._landings.drop(leases)
        self._unsettled -= len(leases)
        self._freed.set()
        if not self._unsettled:
            self._turn.set()

    def _lost(self, leases: Sequence[Lease]) -> None:
        """Somebody else has these pages by now: go no further with them."""
        for lease in leases:
            running = self._running.get(lease)
            if running:
                log.warning("the lease of %s was lost; another worker has it now", lease.url)
                running.task.cancel()

    async def _drain(self, limit: float) -> None:
        """Let what is under way come to its end within *limit* seconds; give back the rest."""
        if self._running:
            await asyncio.wait([running.task for running in self._running.values()], timeout=limit)
        left = [running.task for running in self._running.values()]
        for task in left:
            task.cancel()
        if left:
            _, stubborn = await asyncio.wait(left, timeout=LAST_WORD)
            if stubborn:
                log.warning("pages that do not end though they were told to: %d; they are fetched again", len(stubborn))


def _with_headers(fetch: Fetch, headers: dict[str, str]) -> Fetch:
    """The crawl's own headers go with every page; those of the request go before them."""
    if not headers:
        return fetch

    def with_headers(request: Request) -> Awaitable[Response]:
        own = {name.lower() for name in request.headers}
        rest = {name: value for name, value in headers.items() if name.lower() not in own}
        return fetch(msgspec.structs.replace(request, headers={**rest, **request.headers}))

    return with_headers
