"""Queries that take too long for a page: they run in the background, and the page gets the result when it refreshes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

PATIENCE = 0.15
"""Seconds that a page waits for a result."""
SHARE = 20
"""A result is valid for this many times its duration, so that open pages use at most a twentieth of the time."""
AT_ONCE = 4
"""Maximum number of queries that run at the same time, to leave capacity for other clients of the server."""
UNSEEN = 10.0
"""Minimum validity in seconds of a result that no page has shown yet."""
KEPT = 60.0
"""Seconds after the last request for a result until it is deleted."""
MOST = 100
"""Maximum number of stored queries; the least recently used are deleted."""


class _Result(NamedTuple):
    answer: Any
    at: float
    took: float


@dataclass(slots=True)
class _Asked:
    seeking: asyncio.Task[_Result]
    at: float
    last: _Result | None = None
    """The previous result, while the query runs again."""
    seen: bool = False
    outdated: bool = False
    """Whether data was changed after the query started."""

    @property
    def found(self) -> _Result | None:
        """The result; None while the query runs, and if it failed."""
        task = self.seeking
        return None if not task.done() or task.cancelled() or task.exception() else task.result()

    def is_over(self, now: float) -> bool:
        """Whether the query must run again."""
        if self.outdated:
            return True
        if not self.seeking.done():
            return False
        return self.found is None or now - self.found.at > max(SHARE * self.found.took, 0 if self.seen else UNSEEN)


class SlowQueries:
    """Recent slow queries and their results."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._asked: dict[Hashable, _Asked] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def answer(self, question: Hashable, seek: Callable[[], Awaitable[T]], *, again: bool = False) -> T | None:
        """Return the result of *seek*; None if it takes longer, and then the query continues in the background.

        With *again*, return the previous result while the query runs again.
        """
        now = time.monotonic()
        self._forget_old(now)
        one = self._asked.get(question)
        if one is None or one.is_over(now):
            one = self._asked[question] = _Asked(self._begin(seek), now, (one.found or one.last) if one else None)
        one.at = now
        done, _ = await asyncio.wait({one.seeking}, timeout=self.patience)
        if done and not one.seeking.cancelled():  # a change of data cancels it
            one.seen = True
            return one.seeking.result().answer  # type: ignore[no-any-return]
        return one.last.answer if again and one.last else None

    def _begin(self, seek: Callable[[], Awaitable[T]]) -> asyncio.Task[_Result]:
        seeking = asyncio.create_task(self._seek(seek))
        seeking.add_done_callback(lambda task: task.cancelled() or task.exception())  # the next call raises the error
        return seeking

    async def _seek(self, seek: Callable[[], Awaitable[T]]) -> _Result:
        async with self._turns:
            began = time.monotonic()
            answer = await seek()
            return _Result(answer, time.monotonic(), time.monotonic() - began)

    def outdate(self) -> None:
        """Mark all results as outdated after a change, and cancel running queries."""
        for one in self._asked.values():
            one.outdated = True
            one.seeking.cancel()

    def _forget_old(self, now: float) -> None:
        self._end([question for question, one in self._asked.items() if now - one.at > KEPT])
        by_age = sorted(self._asked, key=lambda question: self._asked[question].at)
        self._end(by_age[: max(0, len(by_age) - MOST)])

    def _end(self, questions: list[Hashable]) -> list[asyncio.Task[_Result]]:
        ended = [self._asked.pop(question).seeking for question in questions]
        for seeking in ended:
            seeking.cancel()
        return ended

    async def close(self) -> None:
        """Cancel all running queries."""
        await asyncio.gather(*self._end(list(self._asked)), return_exceptions=True)
