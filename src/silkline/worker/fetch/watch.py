"""Deadlines: one ticking watch over all fetches of a process, instead of two timers for each."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

from silkline.core.errors import FetchError, FetchTimeout
from silkline.worker.fetch.fetcher import Limits

TICK = 0.1
"""Seconds between two looks: a deadline is never early, and at most so much late."""


class Watchdog:
    """Looks at all fetches under way ten times a second, and stops those that take too long.

    A timer of the event loop for each fetch would cost a quarter of the fetch itself.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._watches: set[Watch] = set()
        self._ticking: asyncio.TimerHandle | None = None

    def over(self, host: str, timeout: float | None) -> Watch:
        """A context that ends with `FetchTimeout` when what happens in it takes too long."""
        return Watch(self, host, self.limits.timeout if timeout is None else timeout)

    def add(self, watch: Watch) -> None:
        self._watches.add(watch)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)

    def remove(self, watch: Watch) -> None:
        self._watches.discard(watch)

    def _tick(self) -> None:
        now = time.monotonic()
        for watch in list(self._watches):
            watch.look(now)
        loop = asyncio.get_running_loop()
        self._ticking = loop.call_later(TICK, self._tick) if self._watches else None

    def close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None


class Watch:
    """The time limits of one fetch; a context manager. Works as `asyncio.timeout` does, by cancelling its task."""

    __slots__ = ("_before", "_dog", "_error", "_host", "_mark", "_task", "_timeout", "_window", "doing", "got", "start")

    def __init__(self, dog: Watchdog, host: str, timeout: float) -> None:
        self._dog = dog
        self._host = host
        self._timeout = timeout
        self._error: FetchError | None = None
        self._window: float | None = None
        self._mark = 0
        self.doing = "looking up the address"
        self.got = 0
        """Bytes of the body so far, as they are sent."""

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self.start = time.monotonic()
        self._dog.add(self)
        return self

    def reading_body(self) -> None:
        """From now on the rate counts."""
        self.doing = "reading the body"
        self._window = time.monotonic()

    def look(self, now: float) -> None:
        """Stop the fetch if its time is over, or if a window ended with too few bytes."""
        if self._error is not None:
            return
        if now - self.start >= self._timeout:
            self._stop(FetchTimeout(f"{self._host} did not finish within {self._timeout:g} s ({self._state()})"))
            return
        limits = self._dog.limits
        if self._window is not None and now - self._window >= limits.min_rate_window:
            rate = (self.got - self._mark) / (now - self._window)
            if rate < limits.min_rate:
                slow = f"{self._host} sends {rate:.0f} bytes a second, at least {limits.min_rate} are asked for"
                self._stop(FetchTimeout(slow, "slow"))
            self._window, self._mark = now, self.got

    def _state(self) -> str:
        return f"{self.doing}, {self.got} bytes so far" if self.got else self.doing

    def _stop(self, error: FetchError) -> None:
        self._error = error
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._dog.remove(self)
        # Only our own cancellation becomes an error; if somebody else cancelled as well, theirs goes on.
        if self._error is not None and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise self._error from None
