"""Detects that a crawl is finished: no worker has anything left to do. Then `scheduler.py` lets Scrapy close the spider."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from silkline.frontier.frontier import Frontier
from silkline.runtime.settling import Retrier

LOOK_EVERY = 0.5
"""Seconds between two checks while only other workers have something to do."""


class IdleDetector:
    """Checks whether this process and the crawl have something left to do. Properties are read on the reactor.

    *busy* returns whether this process has something to do; the frontier knows about the other workers. *actions* returns
    how much this process has done so far. A result holds only until the next action: between an action that is done (a
    request is stored, for example) and the next check, this process is not busy, and yet there is something to do. *over*
    is called when the crawl has been finished for *idle* seconds, until Scrapy has sent `spider_idle`. After that, Scrapy sends it every
    5 seconds by itself, as it does for other schedulers.
    """

    def __init__(
        self,
        retrier: Retrier,
        busy: Callable[[], bool],
        actions: Callable[[], int],
        over: Callable[[], None],
        idle: float,
    ) -> None:
        self._retrier = retrier
        self._busy = busy
        self._actions = actions
        self._known = 0
        """The number of actions for which the last result holds."""
        self._activity = asyncio.Event()
        self._over = over
        self._idle = idle
        self._since: float | None = None
        self._finished = False
        self._signaled = False
        """Whether Scrapy has sent `spider_idle` since the crawl was finished."""

    @property
    def idle_for(self) -> float:
        """Seconds for which no worker has had anything to do."""
        since = self._since
        return 0.0 if since is None or self._is_active() else time.monotonic() - since

    @property
    def was_finished(self) -> bool:
        """Whether no worker had anything to do at the last check."""
        return self._since is not None

    @property
    def finished(self) -> bool:
        return self._finished and not self._is_active()

    def _is_active(self) -> bool:
        """Return whether this process is busy, or has done something since the last check."""
        return self._busy() or self._actions() != self._known

    def look(self) -> None:
        """Check soon: this process has done something. Called on the loop."""
        self._activity.set()

    async def run(self, frontier: Frontier) -> None:
        """Check regularly, until cancelled."""
        while True:
            await self._look(frontier)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._activity.wait()
                self._begin_again()
            self._activity.clear()

    async def _look(self, frontier: Frontier) -> None:
        actions = self._actions()  # the result holds for these
        if (
            self._busy()
            or not await self._retrier.retry(frontier.finished)
            or self._busy()
            or self._actions() != actions
        ):
            self._begin_again()
            return
        if actions != self._known:
            self._begin_again()
            self._known = actions
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since >= self._idle:
            self._finished = True
            if not self._signaled:
                self._over()

    def _begin_again(self) -> None:
        """Something was done or is left to do: idle time starts again."""
        self._since, self._finished, self._signaled = None, False, False

    def note_signal(self) -> None:
        """Scrapy has sent `spider_idle`. Called on the reactor."""
        self._signaled = self._finished

    def _pause(self) -> float:
        if self._since is None or self._finished:
            return LOOK_EVERY
        return min(LOOK_EVERY, max(0.01, self._since + self._idle - time.monotonic()))
