"""The heartbeat: keeps the leases of pages under way, from a thread of its own.

A handler that computes for a minute blocks the event loop, and with it everything that lives there. The heartbeat does not:
it has its own connection, extends what the worker holds, and says which handler blocks. It stops for pages that take
longer than they may, so that a worker that hangs does not keep its pages for ever.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence

from silkline.core.errors import SilklineError
from silkline.core.lease import Lease
from silkline.frontier.sync import SyncFrontier

log = logging.getLogger(__name__)

BEATS_A_LEASE = 4
BLOCKED_AFTER = 1.0
"""Seconds after which a silent event loop is reported."""

Lost = Callable[[Sequence[Lease]], None]


class Heartbeat(threading.Thread):
    """Extends what is held; `lost` is called on the loop with what somebody else holds by now."""

    def __init__(
        self, open_frontier: Callable[[], SyncFrontier], loop: AbstractEventLoop, lost: Lost, lease: float, limit: float
    ) -> None:
        super().__init__(name="silkline-heartbeat", daemon=True)
        self._open_frontier = open_frontier
        self._loop = loop
        self._lost = lost
        self._every = lease / BEATS_A_LEASE
        self._limit = limit
        self._held: dict[Lease, float] = {}
        self._ended = threading.Event()
        self._main = threading.main_thread().ident
        self._pulse = time.monotonic()
        self._reported = 0.0
        self.blocked_seconds = 0.0

    def hold(self, leases: Sequence[Lease]) -> None:
        now = time.monotonic()
        self._held.update((lease, now) for lease in leases)

    def drop(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self._held.pop(lease, None)

    @property
    def held(self) -> list[Lease]:
        return list(self._held)

    def stop(self) -> None:
        self._ended.set()

    def run(self) -> None:
        frontier: SyncFrontier | None = None
        next_beat = time.monotonic() + self._every
        while not self._ended.wait(min(BLOCKED_AFTER / 2, self._every)):
            self._feel_pulse()
            if time.monotonic() < next_beat or self._ended.is_set():
                continue
            next_beat = time.monotonic() + self._every
            try:
                frontier = frontier or self._open_frontier()
                self._beat(frontier)
            except SilklineError as error:  # the next beat may come in time
                log.warning("leases could not be extended: %s", error)
        if frontier:
            frontier.close()

    def _beat(self, frontier: SyncFrontier) -> None:
        youngest = time.monotonic() - self._limit
        kept = [lease for lease, since in list(self._held.items()) if since > youngest]
        lost = frontier.extend(kept) if kept else []
        if lost:
            self._tell_loop(self._lost, lost)

    def _tell_loop(self, what: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *args)
        except RuntimeError:  # it is closed, and whoever held the leases is gone with it
            self._ended.set()

    def _feel_pulse(self) -> None:
        """See whether the event loop answers, and say what it does instead if it does not."""
        silent = time.monotonic() - self._pulse
        if silent > BLOCKED_AFTER + BLOCKED_AFTER / 2 and silent > 2 * self._reported:
            self._reported = silent
            log.warning("the event loop has been blocked for %.1f s %s", silent, self._where())
        self._tell_loop(self._answer)

    def _answer(self) -> None:
        """On the loop."""
        now = time.monotonic()
        if self._reported:
            self.blocked_seconds += now - self._pulse
        self._pulse, self._reported = now, 0.0

    def _where(self) -> str:
        """The user's line, as far as it can be told: the outermost that is not ours or the library's."""
        frame = sys._current_frames().get(self._main or 0)  # noqa: SLF001 - there is no other way to look
        stack = traceback.extract_stack(frame) if frame else []
        ours = [at for at in stack if "/silkline/" in at.filename and "handlers.py" in at.filename]
        inner = stack[stack.index(ours[-1]) + 1 :] if ours else stack[-1:]
        where = inner[0] if inner else None
        return f"in {where.name} ({where.filename}:{where.lineno}); use await, or a thread" if where else ""
