"""Recurring tasks: every worker enqueues the next tick of each of them, and the shard of the task accepts it once.

A tick is a call that is not run before its time. So there is no leader, and it does not matter which worker dies. What time it is, the
server says: the clock of a worker only measures how long it sleeps. The shard stores the newest tick of each schedule and refuses ticks that are
not newer, so no tick repeats if the clock is set back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from silkline.core.request import Request
from silkline.errors import SilklineError
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.enqueue import Admission
from silkline.tasks.spec import CallOptions, TaskSpec

log = logging.getLogger(__name__)

LONGEST_SLEEP = 60.0
"""Seconds after which the server is asked for the time again: its clock may have been set."""
RETRY_AFTER = 1.0


def tick(spec: TaskSpec, at: int) -> Request:
    """Return the tick of a recurring task at a unix time."""
    when = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
    return spec.request((), {}, CallOptions(at=at, unique=f"tick-{when}"))


def report_of(spec: TaskSpec, now: float) -> dict[str, str | int]:
    """Return what a worker reports of the schedule of a task: when it is called, in words, and its next tick."""
    if not spec.schedule:
        return {}
    return {"schedule": in_words(spec.schedule), "next": spec.next_tick(now)}


def in_words(schedule: str) -> str:
    """Return a stored schedule for users: ``every 3600`` is ``every 1h``."""
    word, _, seconds = schedule.partition(" ")
    if word != "every" or not seconds.isdecimal():
        return schedule
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if int(seconds) % size == 0:
            return f"every {int(seconds) // size}{unit}"
    return f"{schedule}s"


class Ticker:
    """Enqueues the next tick of the recurring tasks among *specs*."""

    def __init__(self, frontier: Frontier, specs: Iterable[TaskSpec]) -> None:
        self._frontier = frontier
        self._specs = [spec for spec in specs if spec.schedule]

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
        """Enqueue the next tick of each task, unless this was done before. Returns the seconds until the first of them.

        A tick is offered again after each pause: a server that has failed over may have lost it.
        """
        if not self._specs:
            return LONGEST_SLEEP
        now = await self._time()
        return min([await self._enqueue(spec, now) for spec in self._specs])

    async def _time(self) -> float:
        """Return the time by the server's clock."""
        spec = self._specs[0]
        return (await self._frontier.internal.tick(spec.request((), {}, CallOptions()), spec.schedule)).now

    async def _enqueue(self, spec: TaskSpec, now: float) -> float:
        at = spec.next_tick(now)
        found = await self._frontier.internal.tick(tick(spec, at), spec.schedule)
        return RETRY_AFTER if found.admission is Admission.FULL else at - now
