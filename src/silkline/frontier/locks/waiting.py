"""How async code waits its turn and repeats a call in the background; `sync_waiting` has the same for plain code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class AsyncTurn:
    """One task of this process at a time, in the order of their arrival."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def take(self, seconds: float | None) -> bool:
        """Wait for the turn, at most *seconds*; returns whether it has come."""
        if not self._lock.locked():
            return await self._lock.acquire()
        try:
            async with asyncio.timeout(seconds):
                return await self._lock.acquire()
        except TimeoutError:
            return False

    def pass_on(self) -> None:
        self._lock.release()


class AsyncRepeater:
    """Calls *function* after the seconds that it returned last, in the background, until it returns None."""

    def __init__(self, function: Callable[[], Awaitable[float | None]], first: float) -> None:
        self._function = function
        self._task = asyncio.ensure_future(self._run(first))

    async def _run(self, pause: float | None) -> None:
        while pause is not None:
            await asyncio.sleep(pause)
            pause = await self._function()

    async def stop(self) -> None:
        """Stop, and return when no call is in progress."""
        self._task.cancel()
        await asyncio.wait([self._task])


def async_caller() -> object:
    """Return what runs now: the task."""
    return asyncio.current_task()
