"""The vigil: knows when nothing is left to do, for nobody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from silkline.frontier.frontier import Frontier
from silkline.scrapy.patience import Patience

LOOK_EVERY = 0.5
"""Seconds between two looks while only others have something to do."""


class Vigil:
    """*busy* tells whether this process has something to do; the frontier knows of the others.

    *deeds* counts what this process has done so far. What was known holds only until the next deed: between one that is
    over (a request is stored, say) and our next look, nobody here is busy, and yet there is something to do.
    """

    def __init__(
        self,
        patience: Patience,
        busy: Callable[[], bool],
        deeds: Callable[[], int],
        over: Callable[[], None],
        idle: float,
    ) -> None:
        self._patience = patience
        self._busy = busy
        self._deeds = deeds
        self._known = 0
        """How many deeds there were when nothing was left, as far as we looked."""
        self._calm = asyncio.Event()
        self._over = over
        self._idle = idle
        self._since: float | None = None
        self._finished = False

    @property
    def idle_for(self) -> float:
        """Seconds for which nobody has had anything to do."""
        since = self._since
        return 0.0 if since is None or self._stirs() else time.monotonic() - since

    @property
    def finished(self) -> bool:
        return self._finished and not self._stirs()

    def _stirs(self) -> bool:
        """Whether this process does something, or did since we looked."""
        return self._busy() or self._deeds() != self._known

    def look(self) -> None:
        """Something was done: look soon whether it was the last."""
        self._calm.set()

    async def run(self, frontier: Frontier) -> None:
        """Look, for ever."""
        while True:
            await self._look(frontier)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._calm.wait()
                self._since, self._finished = None, False  # something was done, so the time counts anew
            self._calm.clear()

    async def _look(self, frontier: Frontier) -> None:
        deeds = self._deeds()  # what we know holds for these; until then what we knew, for those of then
        if (
            self._busy()
            or not await self._patience.persist(frontier.finished)
            or self._busy()
            or self._deeds() != deeds
        ):
            self._since, self._finished = None, False
            return
        if deeds != self._known:
            self._known, self._since = deeds, None
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since >= self._idle:
            self._finished = True
            self._over()

    def _pause(self) -> float:
        if self._since is None or self._finished:
            return LOOK_EVERY
        return min(LOOK_EVERY, max(0.01, self._since + self._idle - time.monotonic()))
