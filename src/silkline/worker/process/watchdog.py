"""The watchdog: a thread that notices when the event loop is blocked or the process uses too much memory.

It does not use the server, so the server cannot delay it. The worker decides what to do.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from silkline.core.lease import Lease
from silkline.core.units import format_bytes
from silkline.core.verdict import Release, Strike, Suspect, Verdict
from silkline.runtime.memory import used_memory
from silkline.runtime.settling import Ending
from silkline.worker.options import WorkerOptions

log = logging.getLogger(__name__)

LOOK_EVERY = 0.25
BLOCKED_AFTER = 1.0
"""Seconds after which a blocked event loop is reported."""


class Trouble(NamedTuple):
    """Why a worker cannot continue."""

    what: str
    """What happened, to follow "worker 2": "was blocked for 30 s while handling https://…"."""
    endings: list[Ending]
    """How its leases end: the responsible page gets a strike."""
    is_blocked: bool


def endings(leases: Sequence[Lease], guilty: Lease | None, reason: str, others: Verdict) -> list[Ending]:
    """Return the verdicts on all leases: a strike for the page that took its worker down, *others* for the rest."""
    return [(lease, Strike(reason) if lease == guilty else others) for lease in leases]


class LoopProbe:
    """Whether an event loop runs. Another thread calls `probe` regularly and reads `blocked`.

    The time counts from the first callback that the loop has not run yet. Time in which the calling thread did not run
    either is left out, unless the process was busy: a process that was stopped has not blocked its loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked = self._felt = time.monotonic()
        self._worked = time.process_time()
        self._answered = True
        self.blocked = 0.0
        """Seconds for which the loop has been blocked."""
        self.total = 0.0
        """Seconds for which the loop has been blocked in all, without short delays."""

    def probe(self) -> float:
        """Check whether the last callback has run, and schedule the next one if so. Returns for how long it has been due."""
        now, worked = time.monotonic(), time.process_time()
        late = now - self._felt - LOOK_EVERY
        if late > BLOCKED_AFTER and worked - self._worked < late / 2:
            self._asked += late
        self._felt, self._worked = now, worked
        if self._answered:
            self._asked, self._answered, self.blocked = now, False, 0.0
            self._loop.call_soon_threadsafe(self._answer)
        else:
            self.blocked = now - self._asked
        return self.blocked

    def _answer(self) -> None:
        """Note, on the loop, that the callback has run."""
        waited = time.monotonic() - self._asked
        if waited > BLOCKED_AFTER:
            self.total += waited
        self._answered = True


class Watchdog(threading.Thread):
    """Calls *alarm*, in this thread, when the loop is blocked for too long or the process uses too much memory.

    It must be created in the thread of the loop. *held* returns the leases of the worker, *page_of* the one that a task works on.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: WorkerOptions,
        held: Callable[[], list[Lease]],
        page_of: Callable[[asyncio.Task[object] | None], Lease | None],
        alarm: Callable[[Trouble], None],
    ) -> None:
        super().__init__(name="silkline-watchdog", daemon=True)
        self._loop = loop
        self._options = options
        self._held = held
        self._page_of = page_of
        self._alarm = alarm
        self._probe = LoopProbe(loop)
        self._loop_thread = threading.get_ident()
        self._ended = threading.Event()
        self._reported = 0.0
        self._is_over_memory = False

    @property
    def blocked_seconds(self) -> float:
        return self._probe.total

    def stop(self) -> None:
        self._ended.set()

    def run(self) -> None:
        alarmed = False
        while not self._ended.wait(LOOK_EVERY):
            try:
                blocked = self._probe.probe()
            except RuntimeError:  # the loop is closed, and the worker has ended
                return
            self._report(blocked)
            limit = self._options.blocked_limit
            if limit and blocked >= limit and not alarmed:
                self._alarm(self._blocked(blocked))
            alarmed = bool(limit) and blocked >= limit
            self._watch_memory()

    def _report(self, blocked: float) -> None:
        if blocked > 1.5 * BLOCKED_AFTER and blocked > 2 * self._reported:
            self._reported = blocked
            log.warning("the event loop has been blocked for %.1f s %s", blocked, self._advice())
        elif not blocked:
            self._reported = 0.0

    def _watch_memory(self) -> None:
        limit = self._options.memory_limit
        if limit is None:
            return
        used = used_memory()
        if used is None or used <= limit:
            self._is_over_memory = False
        elif not self._is_over_memory:
            self._is_over_memory = True
            self._alarm(self._out_of_memory(used, limit))

    def _blocked(self, seconds: float) -> Trouble:
        page, where = self._page(), self._where()
        at = f" ({PurePath(where.filename).name}:{where.lineno})" if where else ""
        what = f"was blocked for {seconds:.0f} s{_while_handling(page)}{at}"
        reason = f"it blocked the event loop for {seconds:.0f} s{at}"
        return Trouble(what, endings(self._held(), page, reason, Release()), is_blocked=True)

    def _out_of_memory(self, used: int, limit: int) -> Trouble:
        held = self._held()
        page = held[0] if len(held) == 1 else self._page() if self._probe.blocked else None
        what = f"used {format_bytes(used)} of memory, more than its limit of {format_bytes(limit)},{_while_handling(page, len(held))}"
        reason = f"the worker used more than its {format_bytes(limit)} of memory"
        return Trouble(what, endings(held, page, reason, Suspect()), is_blocked=False)

    def _page(self) -> Lease | None:
        """Return the page whose task occupies the loop."""
        return self._page_of(asyncio.current_task(self._loop))

    def _where(self) -> traceback.FrameSummary | None:
        """Return the line of the user's code that occupies the loop, if it is known: the outermost one below Silkline's."""
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - there is no public function for it
        stack = traceback.extract_stack(frame) if frame else []
        calls = [at for at in stack if "/silkline/" in at.filename and "handlers.py" in at.filename]
        inner = stack[stack.index(calls[-1]) + 1 :] if calls else stack[-1:]
        return inner[0] if inner else None

    def _advice(self) -> str:
        where = self._where()
        return f"in {where.name} ({where.filename}:{where.lineno}); use await, or a thread" if where else ""


def _while_handling(page: Lease | None, held: int = 0) -> str:
    if page:
        return f" while handling {page.url}"
    return f" with {held} pages in progress" if held else ""
