"""Watch the workers of a run: sample their state several times a second, and stop them on a signal."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from rich.markup import escape

from silkline.cli import screen
from silkline.cli.run.board import RunBoard
from silkline.cli.run.pulse import RunSnapshot, Throughput
from silkline.errors import StoreUnavailable
from silkline.frontier.admin_verbs.audit import why_paused_itself
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.frontier import Frontier
from silkline.ops.parsing import plural
from silkline.worker.process.fleet import Fleet
from silkline.worker.process.stuck import StuckDetector, is_of

LOOK_EVERY = 0.3
HOSTS_EVERY = 3.0
HOSTS_LOOKED_AT = 200
PATIENCE = 10.0
"""Seconds that workers may take to exit after the drain time."""

OnLook = Callable[[RunSnapshot], None]


class FleetWatch:
    """Runs the workers until they exit and updates the display. `stop_signal` is the first SIGINT or SIGTERM received."""

    def __init__(self, frontier: Frontier, fleet: Fleet, board: RunBoard, *, drain: float = 20.0) -> None:
        self._frontier = frontier
        self._fleet = fleet
        self._board = board
        self._drain = drain
        self._pulse = Throughput()
        self._last: Stats | None = None
        self._store_trouble = ""
        self._waiting_hosts = ""
        self._longest = 0.0
        self._next_hosts = 0.0
        self._kill_at: float | None = None
        self._turn = asyncio.Event()
        self._paused_itself = False
        self._stuck = StuckDetector(frontier, lambda worker: is_of(worker, fleet.pids))
        self.waits_for: list[str] = []
        """What the remaining pages need and no worker has, if the run was stopped for it."""
        self.then: Callable[[signal.Signals], None] | None = None
        """Gets signals after the workers have exited; else they have their usual effect then."""
        self.stop_signal: signal.Signals | None = None
        self.reloads = False
        """Whether the workers were stopped because the run starts again with a file that has changed."""

    @property
    def elapsed(self) -> float:
        return self._pulse.elapsed

    async def run(self, on_look: OnLook | None = None) -> None:
        """Run until all workers have exited. Raises the error that kept them from working."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number)
        working = asyncio.create_task(self._fleet.run())
        working.add_done_callback(lambda _: self._turn.set())
        try:
            with self._board:
                while not working.done():
                    await self._look(on_look)
                    await self._pause()
            await working
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                if self.then:
                    loop.add_signal_handler(number, self.then, signal.Signals(number))
                else:
                    loop.remove_signal_handler(number)
            if not working.done():
                self._fleet.kill()
                await working

    async def _pause(self) -> None:
        """Wait until the next sample is due or an event occurs."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._turn.wait(), LOOK_EVERY)
        self._turn.clear()
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            self._fleet.kill()

    def _stop(self, number: signal.Signals) -> None:
        """Drain at the first signal, kill at the second."""
        if self.stop_signal:
            self._fleet.kill()
            return
        self.stop_signal = signal.Signals(number)
        self._kill_at = time.monotonic() + self._drain + PATIENCE
        in_flight = self._fleet.in_flight
        first = f": {plural(in_flight, 'page')} in progress, waiting up to {self._drain:.0f} s" if in_flight else ""
        self._board.say(f"stopping{first}; press Ctrl-C again to exit now")
        self._fleet.stop()
        self._turn.set()

    def reload(self, changed: str) -> None:
        """Let the workers end the pages in progress and leave, because a file has changed."""
        if self.stop_signal or self.reloads:
            return
        self.reloads = True
        self._kill_at = time.monotonic() + self._drain + PATIENCE
        self._board.say(f"{escape(screen.printable(changed))} has changed: the workers start again with it")
        self._fleet.stop()
        self._turn.set()

    def stop(self, number: signal.Signals = signal.SIGTERM, why: str = "") -> None:
        """Stop the workers as on a signal."""
        if why:
            self._board.say(escape(screen.printable(why)))
        self._stop(number)

    async def wait_if_it_paused_itself(self, file: str) -> None:
        """If the workers have left because their handlers fail, wait until a file has changed. Ctrl-C ends the run."""
        why = why_paused_itself(await self._frontier.admin.audit(limit=200))
        if not why or self.reloads:
            return
        self._board.say(f"[yellow]the crawl has paused itself[/] because {escape(screen.printable(why))}")
        self._board.say(f"correct {escape(file)} and save it, or press Ctrl-C")
        while not self.reloads:
            await self._turn.wait()
            self._turn.clear()

    async def _look(self, on_look: OnLook | None) -> None:
        try:
            self._last = await self._frontier.admin.stats()
            await self._look_at_hosts()
            await self._look_whether_it_paused_itself(self._last)
            await self._stuck.look(self._last, self._fleet.gives_back)
            self._store_trouble = ""
        except StoreUnavailable as error:
            self._store_trouble = str(error)
        if self._last is None:
            return
        lacks = [str(lack) for lack in self._stuck.lacks]
        estimate = self._pulse.feel(self._last, self._longest)
        look = RunSnapshot(
            stats=self._last,
            counters=self._fleet.counters,
            in_flight=self._fleet.in_flight,
            elapsed=self._pulse.elapsed,
            rate=estimate.rate,
            left=estimate.left,
            growing=estimate.growing,
            restarts=self._fleet.restarts,
            troubles=tuple(one for one in (self._store_trouble, *self._fleet.troubles, *lacks) if one),
            waiting_hosts=self._waiting_hosts,
            stopping="stopping …" if self.stop_signal else "reloading …" if self.reloads else "",
        )
        self._board.show(look)
        if on_look:
            on_look(look)
        if self._stuck.hopeless and not self.stop_signal and not self.waits_for:
            self.waits_for = lacks
            self._fleet.stop()

    async def _look_whether_it_paused_itself(self, stats: Stats) -> None:
        """Stop the workers if the crawl has paused itself: their handlers fail, so waiting is useless."""
        if stats.state != "paused" or self._paused_itself or self.stop_signal:
            return
        if why_paused_itself(await self._frontier.admin.audit(limit=200)):
            self._paused_itself = True
            self._fleet.stop()

    async def _look_at_hosts(self) -> None:
        """Read periodically which hosts are blocked or slowed down, and how long the longest host queue takes."""
        if time.monotonic() < self._next_hosts:
            return
        self._next_hosts = time.monotonic() + HOSTS_EVERY
        hosts = await self._frontier.admin.hosts(limit=HOSTS_LOOKED_AT)
        self._longest = max((host.queued * host.delay for host in hosts), default=0.0)
        blocked = sum(host.blocked_until is not None for host in hosts)
        slowed = sum(host.slowed_from is not None for host in hosts)
        counts = ((blocked, "blocked"), (slowed, "slowed down after a 429 or 503"))
        self._waiting_hosts = ", ".join(f"{plural(count, 'host')} {what}" for count, what in counts if count)
