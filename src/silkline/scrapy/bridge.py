"""Bridge: between Scrapy's reactor, which must never wait, and the frontier, which answers when it can.

One background thread has an event loop of its own, whatever the reactor is, with one frontier in it. The reactor leaves
there what is to be stored and takes from there what was claimed ahead; leases are extended from there whatever the
spider's code does meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from scrapy.crawler import Crawler
from twisted.internet.defer import Deferred

from silkline.core.errors import ConfigError, SilklineError, StoreUnavailable
from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.verdict import Release, Verdict
from silkline.frontier.frontier import Frontier
from silkline.scrapy.intake import Intake
from silkline.scrapy.ledger import Ledger
from silkline.scrapy.member import Member, Pulse
from silkline.scrapy.opening import SCRAPY, open_frontier
from silkline.scrapy.options import Options
from silkline.scrapy.outbox import Errand, News, Outbox
from silkline.scrapy.patience import Patience
from silkline.scrapy.vigil import Vigil
from silkline.worker.presence import Presence

try:
    import uvloop

    new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
except ImportError:  # on platforms that have none
    new_event_loop = None

log = logging.getLogger(__name__)

T = TypeVar("T")
Act = Callable[[Frontier], Awaitable[T]]

BEATS_A_LEASE = 3
STUCK_AFTER = 600.0
"""Seconds after which a reactor that does not answer is given up: its leases are no longer extended."""
DRAIN = 30.0
"""Seconds that closing waits for a server that is away."""

_bridges: WeakKeyDictionary[Crawler, Bridge] = WeakKeyDictionary()


class Bridge:
    """What a scheduler has of the frontier. Methods are the reactor's unless they say otherwise."""

    def __init__(self, crawler: Crawler, options: Options) -> None:
        self.options = options
        self.worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self.heard: Callable[[News], None] = lambda _: None
        """Told on the reactor what the frontier answered."""
        self.changed: Callable[[], None] = lambda: None
        """Told on the reactor that there may be something to do, or that nothing is left."""
        self.failed: Callable[[SilklineError], None] = lambda _: None
        """Told on the reactor that the crawl cannot go on."""
        self.dismissed: Callable[[], None] = lambda: None
        """Told on the reactor that an operator wants the spider to close."""
        self.ledger = Ledger()
        self._on_reactor = find_reactor()
        self._opened: Future[None] = Future()
        self._closed: Future[None] = Future()
        self._held: dict[Lease, None] = {}
        self._patience = Patience()
        self._waiting_tasks: list[Act[Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._core_tasks: list[asyncio.Task[None]] = []
        self._pulse = Pulse(self.call_reactor)
        self._loop: asyncio.AbstractEventLoop
        self._outbox: Outbox
        self._intake: Intake
        self._vigil: Vigil
        self._presence: Presence
        self._frontier: Frontier | None = None
        self._stop: asyncio.Event
        self.resumed = 0
        """How many requests waited in the crawl when it was opened."""
        self.emptied = False
        """Whether the crawl was emptied: before it was opened, or when it was left."""
        _bridges[crawler] = self

    @classmethod
    def of(cls, crawler: Crawler) -> Bridge:
        """The bridge of a crawler whose scheduler is ours and open."""
        found = _bridges.get(crawler)
        if found is None:
            raise ConfigError(
                "this spider has no Silkline scheduler, or it is not open yet: add"
                ' ADDONS = {"silkline.scrapy.Addon": 100} to the settings'
            )
        return found

    # ── opening and closing ──

    def open(self) -> Deferred[None]:
        """Start the thread, and open the frontier in it."""
        threading.Thread(target=self._run, name="silkline-bridge", daemon=True).start()
        return self._as_deferred(self._opened)

    def close(self) -> Deferred[None]:
        """Send what is left, give back what was not handed out, and leave."""
        if self._opened.done() and not self._closed.done():
            with suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._stop.set)
        return self._as_deferred(self._closed)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as error:  # told where it is waited for
            if not self._opened.done():
                self._opened.set_exception(error)
            log.debug("the bridge ended", exc_info=True)
        finally:
            if not self._closed.done():
                self._closed.set_result(None)

    async def _main(self) -> None:
        options = self.options
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        frontier, self.resumed = await open_frontier(options, self.worker, self._note_emptied)
        try:
            self._frontier = frontier
            self._outbox = Outbox(self._loop, self._on_reactor, self._patience, self._held, self._tell, self._sent)
            self._intake = Intake(self._loop, self._patience, self._held, self._arrived, self._missed, options)
            idle = options.idle_before_close
            self._vigil = Vigil(self._patience, self._busy, self._deeds, self._arrived, idle)
            member = Member(self._intake, self._outbox, self.ledger, self._pulse, self._dismiss)
            self._presence = Presence(member, frontier, self.worker, SCRAPY)
            self._presence.start()
            self._core_tasks = [self._guard(part(frontier)) for part in (self._outbox.run, self._intake.run)]
            self._core_tasks += [self._guard(self._vigil.run(frontier)), self._guard(self._keep(frontier))]
            for act in self._waiting_tasks:
                self._start_task(act)
            self._opened.set_result(None)
            await self._stop.wait()
            await self._leave(frontier)
        finally:
            await frontier.close()

    async def _leave(self, frontier: Frontier) -> None:
        outbox, intake, vigil, keep = self._core_tasks
        await _end([*self._tasks, intake, vigil])
        self._give_back()
        self._outbox.close()
        await asyncio.wait([outbox], timeout=DRAIN)
        await _end([outbox, keep])
        if left := len(self._outbox):
            log.warning("%d requests and verdicts could not be stored; their pages are fetched again", left)
            self._presence.stop()
            return
        with suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._sign_off(frontier)

    async def _sign_off(self, frontier: Frontier) -> None:
        with suppress(SilklineError):  # a history that lacks its end is no reason to stay
            await self._presence.tell_rest()
        if self._held:  # nobody ended them: better now than when they expire
            await frontier.settle([(lease, Release()) for lease in list(self._held)])
        clear = not self.options.persist
        if not await frontier.leave(self.worker, shut=clear) and clear:
            await frontier.remove()
            self._note_emptied()

    def _note_emptied(self) -> None:
        self.emptied = True

    # ── requests and verdicts ──

    def push(self, request: Request, *, start: bool = False) -> None:
        """Store a request, soon. One to *start* with was found on no page."""
        self._outbox.push(request, start=start)

    def settle(self, lease: Lease, verdict: Verdict) -> None:
        """End a lease, soon, and not before what was pushed until now is stored."""
        self._outbox.settle(lease, verdict, hurry=self._intake.hungry)

    def run_errand(self, errand: Errand) -> None:
        """Do something else with the frontier before what is pushed or settled from now on."""
        self._outbox.run_errand(errand)

    def take(self) -> Lease | None:
        """A leased request to start with at once, if there is one."""
        return self._intake.take()

    def give_back(self) -> None:
        """The spider is about to close: nothing more is claimed, and what was not handed out is left to others."""
        self._loop.call_soon_threadsafe(self._give_back)

    def _missed(self, lease: Lease) -> None:
        """It was not begun in time: its host has been promised to others since."""
        self._outbox.settle(lease, Release(), hurry=True)

    def landed(self, lease: Lease | None = None) -> None:
        """One that was taken is no longer being downloaded: it is here (then its *lease* is told), or will never be."""
        self._intake.landed(lease)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do, here or elsewhere, and has not been for as long as the project wishes."""
        return self._vigil.finished

    @property
    def idle_for(self) -> float:
        """Seconds for which nobody has had anything to do."""
        return self._vigil.idle_for

    @property
    def claimed(self) -> int:
        """How many requests this process has claimed so far."""
        return self._intake.claimed

    @property
    def room(self) -> int:
        """How many more requests could be downloaded at the same time."""
        return self._intake.room

    @property
    def resting(self) -> bool:
        """Whether an operator has ordered that nothing more is taken."""
        return self._intake.resting

    @property
    def unsent(self) -> int:
        """How much is on its way to the frontier."""
        return len(self._outbox)

    @property
    def is_open(self) -> bool:
        return self._opened.done() and not self._opened.exception() and not self._closed.done()

    # ── for others ──

    def submit(self, act: Act[T]) -> Future[T]:
        """Run *act* with the frontier, in the bridge's thread. May be called from any thread."""
        return asyncio.run_coroutine_threadsafe(self._act(act), self._loop)

    def deferred(self, act: Act[T]) -> Deferred[T]:
        """The same for code on the reactor: the answer comes there."""
        return self._as_deferred(self.submit(act))

    def add_task(self, act: Act[Any]) -> None:
        """Run *act* with the frontier for as long as the spider is open; it is cancelled when it closes."""
        if self._frontier is None:
            self._waiting_tasks.append(act)
        else:
            self._loop.call_soon_threadsafe(self._start_task, act)

    def call_reactor(self, function: Callable[[], object]) -> None:
        """Run *function* on the reactor. For any thread."""
        with suppress(RuntimeError):  # the reactor has ended
            self._on_reactor(function)

    # ── on the loop ──

    async def _act(self, act: Act[T]) -> T:
        assert self._frontier is not None
        return await act(self._frontier)

    def _start_task(self, act: Act[Any]) -> None:
        task = self._guard(self._act(act))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _guard(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        return self._loop.create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, Any]) -> None:
        """A part of the bridge that fails is the end of the crawl, and is told."""
        try:
            await work
        except SilklineError as error:
            told = error
        except Exception as error:
            log.exception("a part of the bridge failed")
            told = SilklineError(f"{type(error).__name__}: {error}")
        else:
            return
        self.call_reactor(lambda: self.failed(told))

    def _give_back(self) -> None:
        self._intake.rest()
        for lease in self._intake.empty():
            self._outbox.settle(lease, Release(), hurry=True)

    def _busy(self) -> bool:
        """Whether this process has something to do. On both threads."""
        return bool(self._held) or len(self._outbox) > 0

    def _deeds(self) -> int:
        """How much was left to be sent, and claimed, in all. On both threads."""
        return self._outbox.left + self._intake.claimed

    def _arrived(self) -> None:
        self.call_reactor(self.changed)

    def _sent(self) -> None:
        """Something new may be there to be claimed, or nothing at all be left to do."""
        self._intake.look()
        self._vigil.look()

    def _tell(self, news: News) -> None:
        self.call_reactor(lambda: self.heard(news))

    async def _keep(self, frontier: Frontier) -> None:
        """Extend leases as long as the reactor answers. Once it is given up, we are to be taken for lost."""
        beat = self.options.lease / BEATS_A_LEASE
        while True:
            await asyncio.sleep(beat)
            silent = self._pulse.feel()
            self._presence.silent = silent > max(STUCK_AFTER, 2 * beat)
            if self._presence.silent:
                log.error("the reactor has not answered for %.0f s: its pages are left to others", silent)
                continue
            leases = list(self._held)
            lost = await self._patience.persist(lambda leases=leases: frontier.extend(leases))  # type: ignore[misc]
            self._lose(lost)

    def _lose(self, leases: list[Lease]) -> None:
        lost = [lease for lease in leases if lease in self._held and lease not in self._outbox.ending]
        if lost:
            log.warning("%d leases were lost: others have taken over, for this process was away too long", len(lost))
            self._intake.lose(lost)

    def _dismiss(self) -> None:
        self.call_reactor(self.dismissed)

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


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def find_reactor() -> Callable[[Callable[[], object]], object]:
    """How to call the thread of the reactor (or of the event loop, where there is no reactor) from another."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        from twisted.internet import reactor  # noqa: PLC0415 - importing it chooses one, so not before Scrapy has

        call: Callable[[Callable[[], object]], object] = reactor.callFromThread
        return call
