"""Detects a crawl that makes no progress, because no worker can handle the remaining pages."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from silkline.errors import SilklineError
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.workers import ALL_WORKERS, MissingCapability, WorkerState, missing_capabilities
from silkline.worker.worker import Worker

log = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds without any progress after which a run that works alone ends."""
LOOK_EVERY, ROSTER_EVERY = 1.0, 3.0


class StuckDetector:
    """Detects that only pages are left that no worker can handle. *is_own* returns whether a worker belongs to this run."""

    def __init__(self, frontier: Frontier, is_own: Callable[[WorkerState], bool]) -> None:
        self._frontier = frontier
        self._is_own = is_own
        self._moved: object = None
        self._since = self._next = 0.0
        self._others = True
        self.lacks: list[MissingCapability] = []
        """What pages need and no live worker has."""
        self.hopeless = False
        """Whether nothing else is left, no other worker is on the crawl, and nothing has changed for a while."""

    async def look(self, stats: Stats, waiting: Mapping[str, int]) -> None:
        """Update from the state of the crawl; *waiting* counts the pages that the workers of this run gave back, by need."""
        if not waiting:
            self.lacks, self._moved, self._next = [], None, 0.0
            return
        now, moved = time.monotonic(), (stats.done, stats.dead, stats.accepted, stats.discarded)
        if moved != self._moved:
            self._moved, self._since = moved, now
        if now >= self._next:
            self._next = now + ROSTER_EVERY
            workers = await self._frontier.admin.workers(limit=ALL_WORKERS)
            self.lacks = [lack for lack in missing_capabilities(workers) if not lack.met]
            self._others = any(worker.alive and not self._is_own(worker) for worker in workers)
        # the roster may be some seconds old
        self.lacks = [lack._replace(pages=max(lack.pages, waiting.get(lack.need, 0))) for lack in self.lacks]
        left = stats.pending + stats.leased + stats.overflow
        nothing_else = stats.state == "open" and left <= sum(waiting.values())
        self.hopeless = nothing_else and not self._others and bool(self.lacks) and now - self._since >= PATIENCE


class StopsWhenStuck:
    """Stops a worker that works alone when it can handle none of the remaining pages."""

    def __init__(self) -> None:
        self.waits_for: list[str] = []
        """Why it was stopped, if it was."""

    @asynccontextmanager
    async def alongside(self, frontier: Frontier, worker: Worker) -> AsyncIterator[None]:
        task = asyncio.create_task(self._watch(frontier, worker))
        try:
            yield
        finally:
            task.cancel()

    async def _watch(self, frontier: Frontier, worker: Worker) -> None:
        stuck = StuckDetector(frontier, lambda other: is_of(other, {os.getpid()}))
        while not stuck.hopeless:
            await asyncio.sleep(LOOK_EVERY)
            with suppress(SilklineError):  # the worker itself logs that the server is unreachable
                await stuck.look(await frontier.admin.stats(), worker.unmet_needs.waiting)
        self.waits_for = [str(lack) for lack in stuck.lacks]
        for why in self.waits_for:
            log.warning("the run ends although the crawl is not finished: %s", why)
        worker.stop()


def is_of(worker: WorkerState, pids: set[int]) -> bool:
    """Return whether a worker of the roster is one of these processes of this machine."""
    return worker.info.get("host") == socket.gethostname()[:100] and worker.info.get("pid") in pids
