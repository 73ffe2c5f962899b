"""Watching a fleet at work: looks at it a few times a second, and stops it when it is told to."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from silkline.cli.run_board import Board
from silkline.cli.run_pulse import Look, Pulse
from silkline.core.errors import StoreUnavailable
from silkline.frontier.frontier import Frontier
from silkline.frontier.inspection import Stats
from silkline.worker.fleet import Fleet

LOOK_EVERY = 0.3
HOSTS_EVERY = 3.0
HOSTS_LOOKED_AT = 200
PATIENCE = 10.0
"""Seconds that workers may take to leave after their drain is over."""

OnLook = Callable[[Look], None]


class Watch:
    """Runs a fleet to its end under a board. `told` is the first signal that wanted it to stop, if one came."""

    def __init__(self, frontier: Frontier, fleet: Fleet, board: Board, *, drain: float = 20.0) -> None:
        self._frontier = frontier
        self._fleet = fleet
        self._board = board
        self._drain = drain
        self._pulse = Pulse()
        self._last: Stats | None = None
        self._store_trouble = ""
        self._waiting_hosts = ""
        self._longest = 0.0
        self._next_hosts = 0.0
        self._kill_at: float | None = None
        self._turn = asyncio.Event()
        self.told: signal.Signals | None = None

    @property
    def elapsed(self) -> float:
        return self._pulse.elapsed

    async def run(self, on_look: OnLook | None = None) -> None:
        """Until all workers have left. Raises what kept them from working."""
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
                loop.remove_signal_handler(number)
            if not working.done():
                self._fleet.kill()
                await working

    async def _pause(self) -> None:
        """Until the next look, or until something happens."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._turn.wait(), LOOK_EVERY)
        self._turn.clear()
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            self._fleet.kill()

    def _stop(self, number: signal.Signals) -> None:
        """The first time gently, then at once."""
        if self.told:
            self._fleet.kill()
            return
        self.told = signal.Signals(number)
        self._kill_at = time.monotonic() + self._drain + PATIENCE
        in_flight = self._fleet.in_flight
        self._board.say(
            f"stopping: {in_flight:,} {'page is' if in_flight == 1 else 'pages are'} ended first, for at most "
            f"{self._drain:.0f} s; Ctrl-C again ends at once"
        )
        self._fleet.stop()
        self._turn.set()

    async def _look(self, on_look: OnLook | None) -> None:
        try:
            self._last = await self._frontier.stats()
            await self._look_at_hosts()
            self._store_trouble = ""
        except StoreUnavailable as error:
            self._store_trouble = str(error)
        if self._last is None:
            return
        rate, left = self._pulse.feel(self._last, self._longest)
        look = Look(
            stats=self._last,
            tally=self._fleet.tally,
            in_flight=self._fleet.in_flight,
            elapsed=self._pulse.elapsed,
            rate=rate,
            left=left,
            restarts=self._fleet.restarts,
            troubles=tuple(one for one in (self._store_trouble, *self._fleet.troubles) if one),
            waiting_hosts=self._waiting_hosts,
            stopping="stopping …" if self.told else "",
        )
        self._board.show(look)
        if on_look:
            on_look(look)

    async def _look_at_hosts(self) -> None:
        """Now and then: which hosts have complained, and how long the longest host queue will take."""
        if time.monotonic() < self._next_hosts:
            return
        self._next_hosts = time.monotonic() + HOSTS_EVERY
        hosts = await self._frontier.hosts(limit=HOSTS_LOOKED_AT)
        self._longest = max((host.queued * host.delay for host in hosts), default=0.0)
        blocked = sum(host.blocked_until is not None for host in hosts)
        slowed = sum(host.slowed_from is not None for host in hosts)
        counts = ((blocked, "blocked for a while"), (slowed, "slowed down after a 429 or 503"))
        self._waiting_hosts = ", ".join(f"{count:,} {what}" for count, what in counts if count)
