"""Recurring tasks: every worker enqueues the next tick of each of them, and the seen filter keeps one of these calls.

A tick is a call that is not run before its time, with its time as its unique key. So there is no leader, and it does not matter which
worker dies. The queue decides by its own clock when a tick is due. A worker whose clock is wrong enqueues a tick that is known, or
one that is not due yet.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from silkline.core.request import Request
from silkline.errors import SilklineError
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.enqueue import Admission
from silkline.tasks.spec import CallOptions, TaskSpec

log = logging.getLogger(__name__)

LONGEST_SLEEP = 60.0
"""Seconds after which the time is read again: the clock may have been set."""
RETRY_AFTER = 1.0
REMEMBERED = 86_400
"""Seconds for which the fingerprint of a tick is kept at least, so that a clock that is set back repeats none."""


def tick(spec: TaskSpec, at: int) -> Request:
    """Return the tick of a recurring task at a unix time."""
    when = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
    return spec.request((), {}, CallOptions(at=at, unique=f"tick-{when}"))


class Ticker:
    """Enqueues the next tick of the recurring tasks among *specs*; *clock* returns the unix time."""

    def __init__(self, frontier: Frontier, specs: Iterable[TaskSpec], clock: Callable[[], float] = time.time) -> None:
        self._frontier = frontier
        self._specs = [spec for spec in specs if spec.every is not None]
        self._clock = clock
        self._enqueued: dict[str, int] = {}

    async def run(self) -> None:
        """Enqueue ticks until cancelled."""
        while self._specs:
            try:
                pause = await self.enqueue_next()
            except SilklineError as error:
                log.debug("the next ticks cannot be enqueued: %s", error)
                pause = RETRY_AFTER
            await asyncio.sleep(min(max(pause, 0.0), LONGEST_SLEEP))

    async def enqueue_next(self) -> float:
        """Enqueue the next tick of each task, unless this was done before. Returns the seconds until the first of them."""
        now = self._clock()
        due = {spec.name: (spec, _next(spec.every, now)) for spec in self._specs if spec.every}
        missing = [(spec, at) for spec, at in due.values() if self._enqueued.get(spec.name) != at]
        admissions = await self._frontier.enqueue([tick(spec, at) for spec, at in missing])
        for (spec, at), admission in zip(missing, admissions, strict=True):
            if admission in (Admission.ADDED, Admission.SEEN):
                self._enqueued[spec.name] = at
        added = [one for one, admission in zip(missing, admissions, strict=True) if admission is Admission.ADDED]
        await self._forget(added)
        if Admission.FULL in admissions:
            return RETRY_AFTER
        return min((at for _, at in due.values()), default=now + LONGEST_SLEEP) - now

    async def _forget(self, added: Iterable[tuple[TaskSpec, int]]) -> None:
        """Forget ticks of long ago, so that the seen filter does not grow with each tick."""
        old = [tick(spec, at - spec.every * (REMEMBERED // spec.every + 1)) for spec, at in added if spec.every]
        if old and self._frontier.layout.settings.seen.kind != "bloom":  # which can forget nothing
            await self._frontier.forget(old)


def _next(every: int, now: float) -> int:
    """Return the first multiple of *every* after *now*."""
    return (int(now) // every + 1) * every
