"""Worker: claims pages that it can start at once, attempts them, and hands the outcomes to the settler.

If there is nothing to claim, `Frontier.claim` (`frontier/frontier.py`) waits: see `frontier/transport/notifier.py`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from silkline.core.lease import Lease, Leases
from silkline.core.request import FILE_META, SITEMAP, Request
from silkline.errors import SilklineError, StoreUnavailable
from silkline.fetch.cookies.jar import CookieJar
from silkline.fetch.cookies.requests import store_cookies, with_cookies
from silkline.fetch.fetcher import Fetcher, Response
from silkline.fetch.proxy.tiers import ProxyPools
from silkline.frontier.admin_verbs.audit import A_WORKER
from silkline.frontier.frontier import DEFAULT_LOCK, Frontier
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.sync_copy import open_sync_copy
from silkline.frontier.verbs.history import Counts, HandlerCounts
from silkline.frontier.verbs.workers import WorkerOrder
from silkline.runtime.counters import Counters, HostStatuses, of_handler
from silkline.runtime.leases import Claimer, ExtenderThread, HeldLeases, Suspects, Vacater
from silkline.runtime.presence import MOST_NEEDS, Orders, Presence, counts_of, few_names, few_tasks
from silkline.runtime.start_windows import StartWindow, StartWindows
from silkline.sinks.sink import Sink
from silkline.tasks.reporter import GroupReporter
from silkline.tasks.running import TaskRunner
from silkline.tasks.schedule import Ticker, report_of
from silkline.tasks.spec import TaskSpec
from silkline.worker.attempt import Attempt, AttemptContext, Outcome, given_up
from silkline.worker.crawl.alerts import AlertWatch, FieldCounter
from silkline.worker.crawl.crawl import Crawl, CrawlHeaders
from silkline.worker.crawl.downloads import Downloads
from silkline.worker.crawl.handlers import Fetch, wrap
from silkline.worker.crawl.page import Links
from silkline.worker.crawl.sitemap import MOST_BYTES
from silkline.worker.failures import Failures, UnmetNeeds, was_cancelled
from silkline.worker.feeds.feeder import Feeding, open_feeds
from silkline.worker.item_check import ItemChecker
from silkline.worker.options import WorkerOptions
from silkline.worker.parsing import Parser
from silkline.worker.private_addresses import PrivateAddresses
from silkline.worker.process.watchdog import Trouble, Watchdog
from silkline.worker.recording import recorded
from silkline.worker.robots import RedirectPacer, RobotsChecker, RobotsGate, getter, time_for
from silkline.worker.sessions import NamedSessions
from silkline.worker.settler import Settler, archives_of
from silkline.worker.task_attempt import TaskAttempt, TaskContext
from silkline.worker.throttling import AdaptiveConcurrency, HostShares, Metered

log = logging.getLogger(__name__)

SHORTEST_WAIT, CLAIM_WAIT = 0.1, 1.0
"""Seconds to wait for work before checking whether the crawl is finished. The wait doubles while nothing arrives."""
MOMENT = 0.005
BATCHES = 4
"""A worker with few free places waits a moment and claims for several at once: at most this many claims for each round of its
places."""
AHEAD = 4
"""Pages that may wait to be stored, as a multiple of the concurrency, so that the memory of the worker is bounded."""
STALLED, HUNG = 15.0, 120.0
"""Seconds without a reply to a claim, although there was room for pages, after which the claim loop counts as stalled, and after
which it counts as hung."""
TASK_MARGIN = 1.2
"""An attempt at a call of a task may take this multiple of its time limit."""
LAST_WORD = 2.0
"""Seconds that a cancelled worker takes to give back its pages, and that cancelled pages get to end."""

AroundAttempt = Callable[[Lease, Callable[[], Awaitable[Outcome]]], Awaitable[Outcome]]
"""A function around every attempt, such as tracing. It must call the function that it gets, and return its result."""


class RunningAttempt(NamedTuple):
    """An attempt in progress."""

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
        options: WorkerOptions | None = None,
        forever: bool = False,
        around_attempt: AroundAttempt | None = None,
    ) -> None:
        crawl.check_ready()
        self.crawl = crawl
        self.options = options or WorkerOptions()
        self.counters = Counters(scripts=frontier.internal.timings)
        self.host_statuses = HostStatuses()
        self._frontier = frontier
        self._around_attempt = around_attempt
        self._sinks = sinks
        self._forever = forever
        self._running: dict[Lease, RunningAttempt] = {}
        self._late: set[Lease] = set()
        self._freed = asyncio.Event()
        self._stopping = False
        self._orders = Orders(self._wake, self.stop)
        self.end_process: Callable[[Trouble], None] | None = None
        """Ends this process, in the watchdog's thread, after its pages were given back. None in a program of the user."""
        self.mark: Callable[[Lease | None], None] = _no_mark
        """Marks the page that a handler works on, in a file that outlives this process."""
        self._held = HeldLeases(max(self.options.attempt_limit, crawl.tasks.longest * TASK_MARGIN))
        self._claim_trouble = ""
        self._looked = time.monotonic()  # when a claim was last replied to, or there was no room for one
        self._claimer = Claimer(self._put_back)
        self._suspects = Suspects()
        self._failures = Failures(crawl.retries, self.counters, self._pause_crawl)
        self._pausing: asyncio.Task[None] | None = None
        self.paused_crawl = False
        """Whether this worker paused the crawl, because a handler failed on many pages in a row."""
        self.unmet_needs = UnmetNeeds(self.counters)
        fields = [alert.field for alert in crawl.alerts if alert.field]
        self._fields = FieldCounter(fields) if fields else None
        self._settler = Settler(
            frontier,
            [*sinks, self._fields] if self._fields else sinks,
            self.counters,
            self._settled,
            lambda: bool(self._running),
            self._failures,
            self._handler_of,
        )
        self._memory_refusals = 0
        self._lacked_memory = False  # whether the server was out of memory between the last two heartbeats
        self._private_addresses = PrivateAddresses(crawl, frontier, self.unmet_needs)
        self._adaptive = AdaptiveConcurrency(self.options.concurrency)
        self._proxies: ProxyPools | None = None
        self._unsettled = 0
        self._short = True  # whether the last claim found less than there was room for
        self._shares = HostShares()
        runner = TaskRunner(redis=frontier.url, memory=self.options.memory_limit)
        self._task_context = TaskContext(frontier, self.counters, self.unmet_needs, runner)
        self._vacater = Vacater(lambda: self._short)
        self._tasks_reported: tuple[float, dict[str, int]] = (time.time(), {})
        self._feeding: Feeding | None = None
        self._starts = StartWindows(frontier.layout.settings.politeness.delay, self.options.lease)
        self._has_pages = crawl.has_pages
        self._prompt = [spec.name for spec in crawl.tasks.specs if spec.limits["delay"]]
        """Hosts whose requests start at once: the tasks with a rate."""

    @property
    def counts(self) -> Counts:
        """The counters that go into the history of the crawl."""
        return counts_of(self.counters)

    @property
    def handlers(self) -> dict[str, HandlerCounts]:
        """The counters by handler, which go into the history too."""
        return self.counters.handlers

    def _handler_of(self, lease: Lease) -> HandlerCounts:
        """Return the counters of the handler of a page."""
        name = lease.request.handler
        return of_handler(self.counters.handlers, self.crawl.handlers.first if name is None else name)

    @property
    def _handlers(self) -> list[str]:
        """The names that a request may give as its handler."""
        return [*self.crawl.handlers.names, *self.crawl.tasks.names]

    @property
    def concurrency(self) -> int:
        """Pages that the worker may have in progress.

        There are fewer than its options allow while its machine is short of a resource, and none while all its proxies rest.
        """
        room = self._proxies.room if self._proxies else None
        return self._adaptive.concurrency if room is None else min(self._adaptive.concurrency, room)

    @property
    def in_flight(self) -> int:
        """Pages in progress."""
        return len(self._running)

    @property
    def trouble(self) -> str | None:
        """Why this worker cannot claim; None if it can."""
        return self._settler.trouble or (self._settler.partly if self._is_full else None)

    @property
    def _is_full(self) -> bool:
        """Whether the limit of unsettled pages is reached, besides pages that wait for an unreachable shard."""
        return self._unsettled - self._settler.aside >= AHEAD * self.options.concurrency

    @property
    def stall(self) -> str | None:
        """Why nothing is claimed although it should be, as text; None if all is well, or if an operator has ordered it."""
        if self._orders.quiet or self._stopping:
            return None
        silent = time.monotonic() - self._looked
        late = f"no reply to a claim for {silent:.0f} s" if silent > STALLED else None
        return self.trouble or self._claim_trouble or self.proxy_trouble or late

    @property
    def proxy_trouble(self) -> str | None:
        """Why no page can be fetched through the proxies; None if they work, or if there are none."""
        return (self._proxies.trouble or None) if self._proxies else None

    @property
    def hung(self) -> bool:
        """Whether the claim loop hangs for an unknown reason, so that only a new process can help."""
        known = self._orders.quiet or self._stopping or self.trouble or self._claim_trouble
        return not known and time.monotonic() - self._looked > HUNG

    @property
    def ordered(self) -> bool:
        """Whether it stops because an operator has ordered it."""
        return self._orders.stopped

    @property
    def doing(self) -> str:
        """The state of the worker: working, quiet or stopping."""
        return "stopping" if self._stopping else "quiet" if self._orders.quiet else "working"

    def _more(self) -> dict[str, Any]:
        """Further fields of its entry in the roster: its handlers, and the pages that it cannot handle."""
        handlers = few_names(self._handlers)
        return {
            **({"handlers": handlers} if handlers else {}),
            **({"tasks": tasks} if (tasks := self._task_report()) else {}),
            **({} if self.crawl.has_pages else {"only_tasks": True}),
            "allow_private": self.crawl.fetching.allow_private,
            **({"fields": self._fields.report()} if self._fields else {}),
            **({"proxies": trouble[:300]} if (trouble := self.proxy_trouble) else {}),
            "gives_back": dict(list(self.unmet_needs.waiting.items())[:MOST_NEEDS]),
            "trouble": self.unmet_needs.trouble or (self._feeding.trouble if self._feeding else ""),
        }

    def _task_report(self) -> Mapping[str, Mapping[str, Any]]:
        """What it reports of each task: its rate since the last report, and its schedule."""
        now, (then, before) = time.time(), self._tasks_reported
        done = {spec.name: of_handler(self.counters.handlers, spec.name).pages for spec in self.crawl.tasks.specs}
        self._tasks_reported = now, done
        found = {
            spec.name: {
                "rate": round((done[spec.name] - before.get(spec.name, 0)) / max(now - then, 1.0), 2),
                **report_of(spec, now),
            }
            for spec in self.crawl.tasks.specs
        }
        return few_tasks(found)

    @property
    def held(self) -> list[Lease]:
        """The leases that this worker holds."""
        return list(self._held)

    @property
    def urls(self) -> list[str]:
        """The pages in progress, the oldest first."""
        return [lease.url for lease in self._running]

    def obey(self, order: WorkerOrder) -> None:
        """Carry out the order of an operator: be quiet (claim nothing more), work again, or stop."""
        if not self._stopping:
            self._orders.obey(order)

    def _wake(self) -> None:
        """Let the claim loop look again at what it should do."""
        if self._feeding:
            self._feeding.quiet = self._orders.quiet
        self._freed.set()
        self._claimer.interrupt()

    def stop(self) -> None:
        """Claim nothing more, let pages in progress end within the drain time, and give back the rest."""
        self._stopping = True
        if self._feeding:
            self._feeding.stop()
        self._wake()

    async def run(self) -> Counters:
        """Work until the crawl is finished or `stop` is called. If its task is cancelled, it gives back its pages at once."""
        self._loop = asyncio.get_running_loop()
        await self._private_addresses.read()
        await self._set_limits()
        self.crawl.tasks.use(self._frontier)
        self._feeding = await self._open_feeds()
        self._fetcher = fetcher = self.crawl.open_fetcher()
        self._proxies = getattr(fetcher, "proxies", None)
        extender = self._make_extender()
        self._context = self._make_context(fetcher)
        settling = asyncio.create_task(self._settler.run())
        settling.add_done_callback(lambda _: self._freed.set())
        watching = [asyncio.create_task(watch) for watch in self._watches()]
        extender.start()
        self._watchdog = self._make_watchdog()
        self._watchdog.start()
        presence = Presence(self, self._frontier, more=self._more, on_beat=self._on_beat)
        presence.start()
        feeding = asyncio.create_task(self._feeding.run())
        feeding.add_done_callback(lambda _: self._wake())
        try:
            await self._claim_until_done(settling, feeding)
            self._feeding.stop()
            await self._drain(self.options.drain)
            await self._settle_rest(settling)
        except (Exception, asyncio.CancelledError):
            await self._abort(settling)
            raise
        finally:
            self._feeding.stop()
            await asyncio.wait([feeding], timeout=LAST_WORD)
            await self._report_proxies()
            for task in (settling, feeding, *watching):
                task.cancel()
            if self._pausing:
                await asyncio.wait([self._pausing], timeout=LAST_WORD)
            await presence.leave()
            self._watchdog.stop()
            extender.stop()
            self._parser.close()
            self._downloads.close()
            self.crawl.tasks.use(None)
            await asyncio.to_thread(self.crawl.tasks.close_sync)  # which threads may have used
            await self._task_context.close()
            await fetcher.close()
            await asyncio.to_thread(extender.join)
            await asyncio.to_thread(self._watchdog.join)
            self.counters.blocked_seconds = self._watchdog.blocked_seconds
        if presence.damage:
            raise presence.damage
        return self.counters

    def _watches(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield what runs beside the claim loop until the worker ends."""
        yield self._end_late()
        yield self._vacater.run(self._frontier)
        yield self._serve_tasks()
        if self.crawl.alerts:
            yield AlertWatch(self._frontier, self.crawl.alerts).run()
        if self._proxies:
            yield self._proxies.share_health(self._frontier.internal.share_proxies)

    async def _report_proxies(self) -> None:
        """Report the last counts of fetches through proxies, if that is quick."""
        if self._proxies:
            with suppress(SilklineError, TimeoutError):
                async with asyncio.timeout(LAST_WORD):
                    await self._proxies.report_rest()

    async def _set_limits(self) -> None:
        """Give each task its rate and concurrency. Those of the worker that was started last apply."""
        for spec in self.crawl.tasks.specs:
            while not self._stopping:  # without its limits, nothing of a task may be claimed
                try:
                    await self._frontier.admin.set_host(spec.name, **spec.limits)
                    break
                except StoreUnavailable as error:
                    self._claim_trouble = str(error)
                    await asyncio.sleep(CLAIM_WAIT)

    async def _open_feeds(self) -> Feeding:
        sources = await open_feeds(self.crawl.feeds, self._frontier, self._handlers)
        return Feeding(self._frontier, sources, self._handlers, self.crawl.until_idle)

    async def _on_beat(self) -> None:
        await self._warn_of_memory()
        await self._private_addresses.update(self._fetcher)

    async def _warn_of_memory(self) -> None:
        """Log that the server is out of memory, once until it has had memory for a whole heartbeat."""
        before, self._memory_refusals = self._memory_refusals, self._frontier.internal.memory_refusals
        lacks = self._memory_refusals > before
        if lacks and not self._lacked_memory:
            log.warning(
                "links of pages cannot be stored now; nothing is lost: %s",
                await self._frontier.internal.out_of_memory(),
            )
        self._lacked_memory = lacks

    async def _abort(self, settling: asyncio.Task[None]) -> None:
        """Give back the pages in progress after an error or a cancellation, and store what has ended if that is quick."""
        self.stop()
        await self._drain(0)
        self._settler.close()
        await asyncio.wait([settling], timeout=LAST_WORD)

    async def _settle_rest(self, settling: asyncio.Task[None]) -> None:
        """Wait for the settler. A worker that must stop waits no longer than the drain time; unsettled pages are fetched again."""
        self._settler.close()
        await asyncio.wait([settling], timeout=self.options.drain if self._stopping else None)
        if settling.done():
            settling.result()
        else:
            why = self._settler.trouble or self._settler.partly
            log.warning("%d pages could not be stored (%s); they will be fetched again", self._unsettled, why)

    def _make_extender(self) -> ExtenderThread:
        return ExtenderThread(self._open_sync_copy, self._loop, self._held, self._lost, self.options.lease)

    def _open_sync_copy(self) -> SyncFrontier:
        """Open the same crawl for another thread."""
        return open_sync_copy(self._frontier, lease=self.options.lease, client_name="heartbeat")

    def _make_watchdog(self) -> Watchdog:
        return Watchdog(self._loop, self.options, lambda: self.held, self._page_of, self._alarm)

    def _page_of(self, task: asyncio.Task[object] | None) -> Lease | None:
        """Return the page that a task works on. May be called in any thread."""
        return next((lease for lease, running in list(self._running.items()) if running.task is task), None)

    def _alarm(self, trouble: Trouble) -> None:
        """Give back all pages, and end the process if it belongs to Silkline. Called in the watchdog's thread."""
        if not trouble.is_blocked and not self.end_process:
            log.error("this process %s", trouble.what)
            return
        leases = [lease for lease, _ in trouble.endings]
        self._held.drop(leases)
        try:
            with self._open_sync_copy() as frontier:
                frontier.settle(trouble.endings)
        except SilklineError as error:  # then they are rescued when they expire
            log.warning("pages could not be given back: %s", error)
        if self.end_process:
            self.end_process(trouble)
        log.error("this worker %s; what it held was given back and will be tried again", trouble.what)
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._lost, leases)

    def _make_context(self, fetcher: Fetcher) -> AttemptContext:
        fetching = self.crawl.fetching
        agent = fetching.agent(self.crawl.name)
        obeys = fetching.obey_robots and not fetching.is_offline
        gate = self._make_gate(fetcher, agent) if obeys else None
        archives = bool(archives_of(self._sinks))
        if archives and (keep_received := getattr(fetcher, "keep_received", None)):
            keep_received()
        self._parser = Parser()
        self._downloads = Downloads(self.crawl.files)
        return AttemptContext(
            crawl=self.crawl,
            fetch=page_fetch(
                self.crawl,
                fetcher,
                self._downloads,
                archives=archives,
                sessions=NamedSessions(self._frontier, self.crawl),
            ),
            gate=gate,
            links=Links(self.crawl.scope, getattr(fetcher, "archived", None)),
            downloads=self._downloads,
            parser=self._parser,
            counters=self.counters,
            host_statuses=self.host_statuses,
            failures=self._failures,
            starts=self._starts,
            unmet_needs=self.unmet_needs,
            rng=random.Random(),
            downloaded=self._vacater.downloaded,
            adaptive_concurrency=self._adaptive,
            mark=self.mark,
            check_items=ItemChecker().check if self.crawl.check_items else None,
            rendering=None if fetching.is_offline else getattr(fetcher, "rendering", None),
            archives=archives,
        )

    def _make_gate(self, fetcher: Fetcher, agent: str) -> RobotsGate:
        longest = self.crawl.fetching.max_crawl_delay
        lock = DEFAULT_LOCK + time_for(self._delay())
        checker = RobotsChecker(self._frontier, agent, lock=lock, max_crawl_delay=longest)
        pacer = RedirectPacer(getter(fetcher, agent), self._delay)
        return RobotsGate(checker, pacer, self.crawl.retries, self.counters, self.host_statuses)

    def _delay(self) -> float:
        """Return the crawl's delay, which an operator may change."""
        return self._frontier.layout.settings.politeness.delay

    async def _claim_until_done(self, settling: asyncio.Task[None], feeding: asyncio.Task[None]) -> None:
        patience = SHORTEST_WAIT
        while not self._stopping and not settling.done():
            _raise_if_cancelled()
            if feeding.done():
                feeding.result()
            self._adaptive.recover()
            if self._nearly_full:
                await asyncio.sleep(0)  # tasks that wait for nothing have ended then
            if self._nearly_full:
                await asyncio.sleep(MOMENT)  # more pages are about to end: one claim serves them all
            if self._orders.quiet or self.unmet_needs.resting or not self.concurrency:
                if not self._unsettled and not self._forever and await self._finished():
                    return
                await self._wait_for_room()
                continue
            room = self.concurrency - self.in_flight
            if room < 1 or self.trouble or self._is_full or self._suspects.forbid_claims(busy=self._unsettled > 0):
                await self._wait_for_room()
                continue
            self._starts.set_delay(self._delay())
            slack = self._starts.slack if self._has_pages else 0.0
            wait = patience if self._short else 0.0  # after a full claim, this one is not interrupted
            leases = await self._claim(room, wait, slack)
            self._short = len(leases) < room
            self._suspects.add(leases)
            if leases:
                patience = SHORTEST_WAIT
                self._begin(leases, slack)
                await _yield_to_settler()
            elif not self._unsettled and not self._forever and await self._finished():
                return
            else:
                patience = min(max(wait * 2, SHORTEST_WAIT), CLAIM_WAIT)

    @property
    def _nearly_full(self) -> bool:
        return 0 < self.in_flight > self.concurrency - self.concurrency // BATCHES

    async def _wait_for_room(self) -> None:
        """Wait until a page has ended, at most a second, so that a monitor sees that the loop is alive."""
        self._freed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._freed.wait(), CLAIM_WAIT)
        self._looked = time.monotonic()

    async def _claim(self, room: int, wait: float, slack: float) -> Leases:
        """Claim what can be started now, after waiting for it for at most *wait* seconds; `Claimer.interrupt` ends the wait."""
        lease, suspects = self.options.lease, self._suspects.wanted(busy=self._unsettled > 0)
        claim = partial(
            self._frontier.claim, room, wait=wait, lease=lease, slack=slack, suspects=suspects, prompt=self._prompt
        )
        try:
            leases = await self._claimer.claim(claim)
        except StoreUnavailable as error:
            log.debug("nothing can be claimed: %s", error)  # the connection has logged it, once
            self._claim_trouble = str(error)
            await asyncio.sleep(CLAIM_WAIT)
            return Leases()
        self._looked, self._claim_trouble = time.monotonic(), ""
        return leases

    def _put_back(self, leases: Leases) -> None:
        """Give back leases that arrived when the worker was cancelled."""
        for lease in leases:
            self._unsettled += 1
            self._settler.add(given_up(lease))

    async def _finished(self) -> bool:
        if self.crawl.tasks.are_recurring:
            return False  # its next tick may not be in the queue yet
        try:
            return await self._feeding.finished() if self._feeding else await self._frontier.finished()
        except StoreUnavailable:
            return False

    def _begin(self, leases: list[Lease], slack: float) -> None:
        self._held.hold(leases)
        self._unsettled += len(leases)
        now = time.monotonic()
        for lease, window in zip(leases, self._starts.windows(leases, slack), strict=True):
            self._running[lease] = RunningAttempt(asyncio.create_task(self._attempt(lease, window)), now)

    async def _attempt(self, lease: Lease, window: StartWindow) -> None:
        """Attempt one page. If it is cancelled, the page is given back, unless another worker has it."""
        attempt = self._make_attempt(lease, window)
        try:
            wait = window.opens - time.monotonic()
            if wait > 0 and isinstance(attempt, Attempt):  # the rate of a task counts from its claim
                await asyncio.sleep(wait)
            outcome = await self._measured(lease, attempt)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - of around_attempt; an attempt raises none
            outcome = self._cut_short(lease) if was_cancelled(error) else self._derailed(lease, error)
        running = self._running.pop(lease, None)
        if running:
            self.counters.busy_seconds += time.monotonic() - running.since
        self._late.discard(lease)
        attempt.log(outcome.verdict)
        self._settler.add(outcome)
        self._freed.set()

    def _make_attempt(self, lease: Lease, window: StartWindow) -> Attempt | TaskAttempt:
        task = self._task_of(lease)
        return TaskAttempt(lease, task, self._task_context) if task else Attempt(lease, self._context, window)

    async def _measured(self, lease: Lease, attempt: Attempt | TaskAttempt) -> Outcome:
        """Run an attempt, and measure its cost. If its host uses more than its share, the outcome is held back for a while."""
        run = self._observed(lease, attempt) if self._around_attempt else attempt.run()
        metered = Metered(run, closely=self._shares.suspects(lease.host))
        try:
            outcome = await metered
        finally:
            seconds, cpu = metered.seconds + attempt.elsewhere, metered.cpu + attempt.elsewhere
            self.host_statuses.spent(lease.host, cpu)
            costly = self._shares.note(lease.host, seconds, cpu)
        if costly and not self._stopping:
            self._vacater.drop([lease])  # keep the host's slot for now
            with suppress(asyncio.CancelledError):  # the page has ended, and its outcome counts
                await self._shares.rest(lease.host, lambda: self._stopping)
        return outcome

    async def _observed(self, lease: Lease, attempt: Attempt | TaskAttempt) -> Outcome:
        assert self._around_attempt is not None
        return await self._around_attempt(lease, attempt.run)

    def _cut_short(self, lease: Lease) -> Outcome:
        if lease in self._late:
            return Outcome(lease, self._failures_of(lease).took_too_long(lease, self._limit_of(lease)))
        return given_up(lease)

    def _derailed(self, lease: Lease, error: BaseException) -> Outcome:
        return Outcome(lease, self._failures_of(lease).failed(lease, "the attempt", error))

    def _task_of(self, lease: Lease) -> TaskSpec | None:
        """Return the task of which a request is a call; None for a page."""
        return self.crawl.tasks.by_name.get(lease.request.handler or "")

    def _failures_of(self, lease: Lease) -> Failures:
        task = self._task_of(lease)
        return self._task_context.failures(task) if task else self._failures

    def _limit_of(self, lease: Lease) -> float:
        """Return how long an attempt may take. A task with a long timeout gives pages no more time."""
        task = self._task_of(lease)
        return max(self.options.attempt_limit, task.timeout * TASK_MARGIN if task else 0.0)

    def _pause_crawl(self, why: str) -> None:
        """Pause the crawl: a handler fails on every page."""
        if self._pausing is None or self._pausing.done():
            self._pausing = asyncio.create_task(self._pause_and_leave(why))

    async def _pause_and_leave(self, why: str) -> None:
        try:
            await self._frontier.admin.pause()
            await self._frontier.internal.append_audit(f"{A_WORKER}{why}", "pause")
        except SilklineError as error:
            log.error("%s, and the crawl cannot be paused: %s", why, error)  # noqa: TRY400 - for people
            return
        self.paused_crawl = True
        log.error(
            "%s; the crawl is paused. Correct the file and restart the workers with it, then: silkline dead revive %s and "
            "silkline crawl resume %s; or, on one machine: silkline run FILE --revive. The pages that failed are dead letters, and "
            "nothing is lost",
            why,
            self.crawl.name,
            self.crawl.name,
        )
        if not self._forever:
            self.stop()

    async def _serve_tasks(self) -> None:
        """Enqueue the ticks of recurring tasks, and report calls that have ended to the groups that wait for them."""
        if self.crawl.tasks:
            ticker = Ticker(self._frontier, self.crawl.tasks.specs)
            await asyncio.gather(ticker.run(), GroupReporter(self._frontier).run())

    async def _end_late(self) -> None:
        """Cancel pages that take too long. Checking all of them now and then is cheaper than a timer for each."""
        while True:
            await asyncio.sleep(min(self.options.attempt_limit / 4, 5.0))
            now = time.monotonic()
            for lease, running in list(self._running.items()):
                if now - running.since > self._limit_of(lease) and lease not in self._late:
                    self._late.add(lease)
                    running.task.cancel()

    def _settled(self, leases: Sequence[Lease]) -> None:
        self._held.drop(leases)
        self._vacater.drop(leases)
        self._unsettled -= len(leases)
        self._freed.set()
        may_be_finished = self._short and not self._unsettled and not self._forever
        if self._suspects.drop(leases) or may_be_finished:
            self._claimer.interrupt()  # another suspect may be claimed, or nothing is left here

    def _lost(self, leases: Sequence[Lease]) -> None:
        """Cancel pages whose leases another worker holds now."""
        for lease in leases:
            running = self._running.get(lease)
            if running:
                log.warning("the lease of %s was lost; another worker has it now", lease.url)
                running.task.cancel()

    async def _drain(self, limit: float) -> None:
        """Wait at most *limit* seconds for the pages in progress, and give back the rest."""
        if self._running:
            await asyncio.wait([running.task for running in self._running.values()], timeout=limit)
        left = [running.task for running in self._running.values()]
        for task in left:
            task.cancel()
        if left:
            _, stubborn = await asyncio.wait(left, timeout=LAST_WORD)
            if stubborn:
                log.warning("%d pages did not stop after cancellation; they will be fetched again", len(stubborn))


async def _yield_to_settler() -> None:
    """Let attempts that wait for nothing end, and let the settler send their outcomes, before the next claim is made."""
    for _ in range(2):
        await asyncio.sleep(0)


def _raise_if_cancelled() -> None:
    """Raise a cancellation that an awaited call has swallowed, as `asyncio.wait_for` of Python 3.11 may."""
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


def _no_mark(_: Lease | None) -> None:
    """Mark nothing: no other process reads it."""


def page_fetch(
    crawl: Crawl,
    fetcher: Fetcher,
    downloads: Downloads | None = None,
    *,
    archives: bool = False,
    jar: CookieJar | None = None,
    sessions: NamedSessions | None = None,
) -> Fetch:
    """Return the function that fetches the pages of a crawl: with its headers and cookies, and through its middleware.

    With *downloads*, files are fetched too. With *archives*, what is sent and received is recorded. *jar* has cookies of earlier fetches.
    Without *sessions*, requests with a named session use it too.
    """
    fetch = _with_limit(fetcher, crawl.fetching.agent(crawl.name), downloads)
    if crawl.fetching.cookies:
        fetch = _with_cookies(fetch, crawl, CookieJar() if jar is None else jar, sessions)
    return wrap(_with_headers(recorded(fetch) if archives else fetch, crawl.headers), crawl.middlewares)


def _with_limit(fetcher: Fetcher, agent: str, downloads: Downloads | None) -> Fetch:
    """Return the fetch of *fetcher*, in which a sitemap may have the size that its protocol permits, and files have their own limit."""
    fetch = partial(fetcher.fetch, user_agent=agent)

    def with_limit(request: Request) -> Awaitable[Response]:
        if downloads is not None and FILE_META in request.meta:
            return downloads.fetch(request, fetcher, agent)
        return fetch(request, cut=MOST_BYTES + 1) if request.handler == SITEMAP else fetch(request)

    return with_limit


def _with_cookies(fetch: Fetch, crawl: Crawl, jar: CookieJar, sessions: NamedSessions | None) -> Fetch:
    """Return *fetch*, which sends the cookies of *jar* or of a named session, and stores those of responses."""
    default = crawl.session_of(Request(""))

    async def fetch_with_cookies(request: Request) -> Response:
        session = default if request.session is None else request.session
        if session is False:
            return await fetch(request)
        if session is not None and sessions is not None:
            return await sessions.fetch(request, fetch)
        response = await fetch(with_cookies(request, jar) if jar.sites else request)
        if response.headers.get("set-cookie") is not None:
            store_cookies(jar, request, response)
        return response

    return fetch_with_cookies


def _with_headers(fetch: Fetch, headers: CrawlHeaders) -> Fetch:
    """Return *fetch* with the crawl's headers added for its own sites. The headers of a request take precedence."""
    if not headers:
        return fetch

    def with_headers(request: Request) -> Awaitable[Response]:
        return fetch(msgspec.structs.replace(request, headers=headers.for_request(request)))

    return with_headers
