"""Two threads, one crawl: Scrapy's reactor, which must never block, and an event loop that talks to the frontier.

What crosses from one thread to the other does so in one of these places:

- `Bridge.outbox`: requests, verdicts and calls, from the reactor to the frontier.
- `Bridge.prefetch`: leased requests, from the frontier to the reactor.
- `Bridge.submit` and `Bridge.deferred`: one call of the frontier and its result.
- `Bridge.call_reactor`: a function that the loop calls on the reactor; `BridgeEvents` has those of the scheduler.

Leases are extended on the loop, also while the spider's code blocks the reactor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.crawler import Crawler
from twisted.internet.defer import Deferred

from silkline.core.lease import Lease
from silkline.core.retries import Backoff
from silkline.core.verdict import Release, Verdict
from silkline.errors import ConfigError, SilklineError, StoreUnavailable, UnknownCrawl
from silkline.frontier.admin_verbs.dead_letters import DeadGroup
from silkline.frontier.frontier import Frontier
from silkline.runtime.event_loop import new_event_loop
from silkline.runtime.leases import EXTENSIONS_PER_LEASE, HeldLeases, extend_regularly
from silkline.runtime.presence import Presence
from silkline.runtime.settling import Retrier
from silkline.runtime.start_windows import missed_verdict
from silkline.scrapy.bridge.idle import IdleDetector
from silkline.scrapy.bridge.opening import (
    SCRAPY,
    OpenCrawl,
    crawl_gone,
    describe,
    describe_pace,
    open_frontier,
    warn_of_unread_queue,
)
from silkline.scrapy.bridge.outbox import DeliveryReport, FrontierCall, Outbox
from silkline.scrapy.bridge.prefetch import Prefetch
from silkline.scrapy.bridge.worker_status import ReactorProbe, ScrapyCounters, ScrapyWorker
from silkline.scrapy.convert.settings import PluginOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

BACKOFF = Backoff()
"""For requests that this process was too busy to start."""
DRAIN_TIMEOUT = 30.0
"""Seconds for which a closing spider waits for an unreachable server."""
CREATE_AGAIN_AFTER = 1.0
"""Seconds until a crawl that was deleted is created again. Until then, the other workers that wait have noticed that it was."""
SHOWN_REASONS = 3
REMOVED = (
    "%s dead letters are removed with the crawl %r, because SCHEDULER_PERSIST is False: %s. To keep the crawl with its dead "
    "letters when the spider closes, set SCHEDULER_PERSIST=True"
)

_bridges: WeakKeyDictionary[Crawler, Bridge] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class BridgeEvents:
    """Functions of the scheduler that the bridge calls on the reactor."""

    delivered: Callable[[DeliveryReport], None]
    """The frontier has replied to what was sent, and the spider must know of it."""
    changed: Callable[[], None]
    """There may be requests to download, or nothing is left to do."""
    failed: Callable[[SilklineError], None]
    """The crawl cannot continue."""
    stop_ordered: Callable[[], None]
    """An operator has ordered the spider to close."""


class Bridge:
    """The event loop of one spider, in a separate thread. Methods are called on the reactor, except where noted."""

    def __init__(self, crawler: Crawler, options: PluginOptions, events: BridgeEvents) -> None:
        self.options = options
        self.worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self.resumed = 0
        self.description = ""
        """The number of requests that waited in the crawl when it was opened."""
        self.emptied = False
        """Whether the crawl was removed: before it was opened, or when it was closed."""
        self._events = events
        self._on_reactor = find_reactor()
        self._loop = (new_event_loop or asyncio.new_event_loop)()
        self._opened: Future[None] = Future()
        self._closed: Future[None] = Future()
        self._stop = asyncio.Event()
        self._gone = asyncio.Event()
        """The crawl was deleted on the server while there was nothing to do."""
        self._failed = False
        self._past_losses = 0
        """`losses` of the crawls that were deleted."""
        self._held, retrier = HeldLeases(), Retrier()
        self._probe = ReactorProbe(self.call_reactor)
        self.counters = ScrapyCounters()
        self.prefetch = Prefetch(self._loop, self._on_reactor, retrier, self._held, self.wake, self._missed, options)
        self.outbox = Outbox(
            self._loop, self._on_reactor, retrier, self._held, self.prefetch.places, self._report, self._sent
        )
        self.idle = IdleDetector(retrier, self._is_busy, self._actions, self.wake, options.idle_before_close)
        crawler.signals.connect(self.idle.note_signal, signals.spider_idle)
        self._calls: list[FrontierCall[Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._core_tasks: list[asyncio.Task[None]] = []
        self._presence: Presence
        self._shared = False
        """Whether it was logged that other workers work on the crawl."""
        self._frontier: Frontier | None = None
        _bridges[crawler] = self

    @classmethod
    def of(cls, crawler: Crawler) -> Bridge:
        """Return the bridge of a crawler. Raises `ConfigError` if its scheduler is not Silkline's, or not open."""
        found = _bridges.get(crawler)
        if found is None:
            raise ConfigError(
                "this spider has no Silkline scheduler, or it is not open yet: add"
                ' ADDONS = {"silkline.scrapy.Addon": 100} to the settings'
            )
        return found

    # ── opening and closing ──

    def open(self) -> Deferred[None]:
        """Start the thread and open the frontier. The Deferred fires when it is open, or fails."""
        threading.Thread(target=self._run, name="silkline-bridge", daemon=True).start()
        return self._as_deferred(self._opened)

    def close(self) -> Deferred[None]:
        """Send what is in the outbox, release what was not started, and leave the crawl."""
        if self._opened.done() and not self._closed.done():
            with suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._stop.set)
        return self._as_deferred(self._closed)

    @property
    def is_open(self) -> bool:
        return self._opened.done() and not self._opened.exception() and not self._closed.done()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._main())
        except BaseException as error:  # `open` raises it
            if not self._opened.done():
                self._opened.set_exception(error)
            log.debug("the bridge ended", exc_info=True)
        finally:
            if not self._closed.done():
                self._closed.set_result(None)

    async def _main(self) -> None:
        opened = await open_frontier(self.options, self.worker, self._note_emptied)
        frontier, self.resumed, self.description = opened.frontier, opened.stats.pending, describe(self.options, opened)
        try:
            await warn_of_unread_queue(self.options, frontier)
            status = ScrapyWorker(self.prefetch, self.outbox, self.counters, self._probe, self._order_stop)
            self._shared = opened.others > 0
            self._presence = Presence(status, frontier, self.worker, lambda: SCRAPY, on_beat=self._note_others)
            self._presence.start()
            self._work_on(frontier)
            self._opened.set_result(None)
            while not await self._stopped():
                frontier = await self._create_again(frontier)
            await self._leave(frontier)
        finally:
            await frontier.close()

    def _work_on(self, frontier: Frontier) -> None:
        self._frontier = frontier
        parts = (self.outbox.run(frontier), self.prefetch.run(frontier), self.idle.run(frontier))
        extending = extend_regularly(
            frontier, self._held, self._drop_lost, self.options.lease, allowed=self._may_extend
        )
        self._core_tasks = [self._guard(part) for part in (*parts, extending)]
        for call in self._calls:
            self._start_task(call)

    async def _stopped(self) -> bool:
        """Wait until the spider closes. Returns False if the crawl must be created again before that."""
        waiting = [self._loop.create_task(event.wait()) for event in (self._stop, self._gone)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await _end(waiting)
        return self._stop.is_set()

    async def _create_again(self, gone: Frontier) -> Frontier:
        """Create a crawl again that was deleted while there was nothing to do.

        Returns its frontier; *gone* if the spider closes before the server is reachable.
        """
        log.warning(
            "the crawl %r is no longer on the server: it was flushed or removed. No request was waiting or in progress, so the"
            " spider creates it again and continues",
            self.options.crawl,
        )
        self._presence.silent = True
        await _end([*self._tasks, *self._core_tasks])
        await asyncio.sleep(CREATE_AGAIN_AFTER)
        opened: OpenCrawl | None = None
        while opened is None and not self._stop.is_set():
            opened = await self._try_open()
        if opened is None:
            return gone
        self._gone.clear()
        self._past_losses += gone.losses + 1  # what the spider has enqueued is no longer seen
        self._presence.move(opened.frontier)
        self._presence.silent = False
        self._work_on(opened.frontier)
        await gone.close()
        return opened.frontier

    async def _try_open(self) -> OpenCrawl | None:
        """Open the crawl; if that is not possible now, return None after a while."""
        try:
            return await open_frontier(replace(self.options, flush_on_start=False), self.worker)
        except StoreUnavailable:
            pass
        except SilklineError as error:
            self._fail(error)
        await asyncio.sleep(CREATE_AGAIN_AFTER)
        return None

    async def _leave(self, frontier: Frontier) -> None:
        sending, prefetching, watching, extending = self._core_tasks
        await _end([*self._tasks, prefetching, watching])
        self._give_back()
        self.outbox.close()
        await asyncio.wait([sending], timeout=DRAIN_TIMEOUT)
        await _end([sending, extending])
        if left := len(self.outbox):
            then = "" if self._failed else "; their pages will be fetched again"
            log.warning("%d requests and verdicts could not be stored%s", left, then)
            self._presence.stop()
            return
        with suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT):
                await self._sign_off(frontier)

    async def _sign_off(self, frontier: Frontier) -> None:
        with suppress(SilklineError):  # the spider closes even if its last counters cannot be stored
            await self._presence.report_rest()
        if self._held:  # Scrapy did not end them; released, they need not expire
            await frontier.settle([(lease, Release()) for lease in self._held])
        clear = not self.options.persist
        if not await frontier.internal.leave(self.worker, shut=clear) and clear:
            await self._log_dead_letters(frontier)
            await frontier.admin.remove()
            self._note_emptied()

    async def _log_dead_letters(self, frontier: Frontier) -> None:
        """Log which dead letters are removed with the crawl."""
        stats = await frontier.admin.stats()
        if not stats.dead:
            return
        groups = await frontier.admin.dead_groups("reason", limit=SHOWN_REASONS)
        log.warning(REMOVED, f"{stats.dead:,}", self.options.crawl, ", ".join(map(_group, groups)))

    def _note_emptied(self) -> None:
        self.emptied = True

    # ── the crossings ──

    def settle(self, lease: Lease, verdict: Verdict) -> None:
        """Store a verdict soon, and not before all requests that were pushed until now."""
        self.outbox.settle(lease, verdict, hurry=self.prefetch.nearly_empty)

    def give_back(self) -> None:
        """Claim nothing more, and release what was not started: the spider is about to close."""
        self._loop.call_soon_threadsafe(self._give_back)

    def submit(self, call: FrontierCall[T]) -> Future[T]:
        """Run *call* with the frontier on the loop. May be called in any thread."""
        return asyncio.run_coroutine_threadsafe(self._call(call), self._loop)

    def deferred(self, call: FrontierCall[T]) -> Deferred[T]:
        """Run *call* with the frontier on the loop, and return a Deferred of its result."""
        return self._as_deferred(self.submit(call))

    def add_task(self, call: FrontierCall[Any]) -> None:
        """Run *call* with the frontier while the spider is open. It is cancelled when the spider closes."""
        if self._frontier is None:
            self._calls.append(call)
        else:
            self._loop.call_soon_threadsafe(self._add_task, call)

    def call_reactor(self, function: Callable[[], object]) -> None:
        """Call *function* on the reactor. May be called in any thread."""
        with suppress(RuntimeError):  # the reactor has ended
            self._on_reactor(function)

    def wake(self) -> None:
        """Make the engine look for requests, or notice that nothing is left to do. May be called in any thread."""
        self.call_reactor(self._events.changed)

    @property
    def given_up(self) -> bool:
        """Whether the reactor was blocked for so long that other workers may have what this process works on."""
        return self._presence.silent

    @property
    def losses(self) -> int:
        """How often the server has lost, or may have lost, writes; see `Frontier.losses`."""
        return self._past_losses + (self._frontier.losses if self._frontier else 0)

    # ── on the loop ──

    async def _call(self, call: FrontierCall[T]) -> T:
        assert self._frontier is not None
        return await call(self._frontier)

    def _add_task(self, call: FrontierCall[Any]) -> None:
        self._calls.append(call)
        self._start_task(call)

    def _start_task(self, call: FrontierCall[Any]) -> None:
        task = self._guard(self._call(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _guard(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        return self._loop.create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a part of the bridge. If it fails, the spider closes with its error."""
        try:
            await work
        except UnknownCrawl:
            self._note_gone()
        except SilklineError as error:
            self._fail(error)
        except Exception as error:
            log.exception("a part of the bridge failed")
            self._fail(SilklineError(f"{type(error).__name__}: {error}"))

    def _note_gone(self) -> None:
        """The crawl was deleted. If there was nothing to do, it is created again; else the spider closes."""
        if self._gone.is_set():
            return
        if self._held or not self.idle.was_finished:
            self._fail(crawl_gone(self.options.crawl, len(self._held)))
        else:
            self._gone.set()

    def _fail(self, error: SilklineError) -> None:
        """Close the spider. Only the first error counts: the parts of the bridge meet the same one."""
        if not self._failed:
            self._failed = True
            self.call_reactor(lambda: self._events.failed(error))

    def _give_back(self) -> None:
        self.prefetch.pause()
        for lease in self.prefetch.take_all():
            self.outbox.settle(lease, Release(), hurry=True)

    def _missed(self, lease: Lease, release: Release | None) -> None:
        """Settle a request that was not started in its window. Called on the reactor."""
        self.outbox.settle(lease, missed_verdict(lease, release, BACKOFF, random.Random()), hurry=True)

    def _is_busy(self) -> bool:
        """Return whether this process has leases or something to send. Called in both threads."""
        return bool(self._held) or len(self.outbox) > 0

    def _actions(self) -> int:
        """Return how much was put into the outbox and claimed so far. Called in both threads."""
        return self.outbox.total + self.prefetch.claimed

    def _sent(self, ended: list[Lease]) -> None:
        """The outbox has sent a batch: there may be something new to claim, or nothing left to do."""
        self.prefetch.ended(ended)
        self.prefetch.look()
        self.idle.look()

    def _report(self, report: DeliveryReport) -> None:
        self.call_reactor(lambda: self._events.delivered(report))

    def _may_extend(self) -> bool:
        """Return whether leases may be extended: not after the reactor was blocked for longer than the limit."""
        limit, beat = self.options.blocked_limit, self.options.lease / EXTENSIONS_PER_LEASE
        silent, given_up = self._probe.silent_seconds(), self._presence.silent
        self._presence.silent = bool(limit) and silent > max(limit, 2 * beat)
        if self._presence.silent and not given_up:
            log.error(
                "the reactor has been blocked for %.0f s, longer than SILKLINE_BLOCKED_LIMIT: the requests of this process are"
                " left to other workers",
                silent,
            )
        if given_up and not self._presence.silent:
            log.warning("the reactor runs again")
        return not self._presence.silent

    def _drop_lost(self, leases: list[Lease]) -> None:
        lost = [lease for lease in leases if lease in self._held and lease not in self.outbox.settling]
        if lost:
            log.warning(
                "%d leases were lost: they expired, and other workers may have claimed their requests", len(lost)
            )
            self.prefetch.drop_lost(lost)

    async def _note_others(self) -> None:
        """Log once that other workers have joined, and what that means for the pace."""
        if self._presence.others and not self._shared:
            self._shared = True
            log.info("another worker has joined the crawl %r. %s", self.options.crawl, describe_pace(self.options))

    def _order_stop(self) -> None:
        self.call_reactor(self._events.stop_ordered)

    def _as_deferred(self, future: Future[T]) -> Deferred[T]:
        deferred: Deferred[T] = Deferred()

        def fire() -> None:
            error = future.exception()
            if error is None:
                deferred.callback(future.result())
            else:
                deferred.errback(error)

        future.add_done_callback(lambda _: self.call_reactor(fire))
        return deferred


def _group(group: DeadGroup) -> str:
    return f"{group.letters:,} × {group.name}" if group.name else f"{group.letters:,} others"


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def find_reactor() -> Callable[[Callable[[], object]], object]:
    """Return a function that calls another one on the reactor, or on the running event loop if there is no reactor."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        from twisted.internet import reactor  # noqa: PLC0415 - importing it installs a reactor, which Scrapy must choose

        call: Callable[[Callable[[], object]], object] = reactor.callFromThread
        return call
