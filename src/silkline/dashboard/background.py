"""What takes longer than a page may: it goes on in the background, and the page that asks again finds it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

PATIENCE = 0.15
"""So many seconds a page waits for an answer."""
SHARE = 20
"""An answer is good for so many times as long as it took to find: pages that stay open take a twentieth of the time."""
AT_ONCE = 4
"""So many questions are answered at a time: each keeps the server busy in short steps, and others want to be served in between."""
UNSEEN = 10.0
"""An answer that nobody has seen is good for so many seconds, however quickly it was found."""
KEPT = 60.0
"""An answer that nobody asked for in so many seconds is forgotten."""
MOST = 100
"""So many questions are kept; of more, those that were asked last."""


class _Found(NamedTuple):
    answer: Any
    at: float
    took: float


@dataclass(slots=True)
class _Asked:
    seeking: asyncio.Task[_Found]
    at: float
    last: _Found | None = None
    """What was found before, while it is sought anew."""
    seen: bool = False
    outdated: bool = False
    """Something was changed since it was asked."""

    @property
    def found(self) -> _Found | None:
        """None while it is sought, and if that failed."""
        task = self.seeking
        return None if not task.done() or task.cancelled() or task.exception() else task.result()

    def is_over(self, now: float) -> bool:
        """Whether it must be sought anew."""
        if self.outdated:
            return True
        if not self.seeking.done():
            return False
        return self.found is None or now - self.found.at > max(SHARE * self.found.took, 0 if self.seen else UNSEEN)


class Background:
    """Long questions that pages asked lately."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._asked: dict[Hashable, _Asked] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def answer(self, question: Hashable, seek: Callable[[], Awaitable[T]], *, again: bool = False) -> T | None:
        """What *seek* finds; None when it takes longer: it goes on, ask again.

        Who has seen an answer and only asks *again* gets the last one meanwhile.
        """
        now = time.monotonic()
        self._forget_old(now)
        one = self._asked.get(question)
        if one is None or one.is_over(now):
            one = self._asked[question] = _Asked(self._begin(seek), now, (one.found or one.last) if one else None)
        one.at = now
        done, _ = await asyncio.wait({one.seeking}, timeout=self.patience)
        if done and not one.seeking.cancelled():  # it is when something was changed meanwhile
            one.seen = True
            return one.seeking.result().answer  # type: ignore[no-any-return]
        return one.last.answer if again and one.last else None

    def _begin(self, seek: Callable[[], Awaitable[T]]) -> asyncio.Task[_Found]:
        seeking = asyncio.create_task(self._seek(seek))
        seeking.add_done_callback(lambda task: task.cancelled() or task.exception())  # who asks again is told of it
        return seeking

    async def _seek(self, seek: Callable[[], Awaitable[T]]) -> _Found:
        async with self._turns:
            began = time.monotonic()
            answer = await seek()
            return _Found(answer, time.monotonic(), time.monotonic() - began)

    def outdate(self) -> None:
        """Something was changed: what was found before it, or is being sought, must be sought anew."""
        for one in self._asked.values():
            one.outdated = True
            one.seeking.cancel()

    def _forget_old(self, now: float) -> None:
        self._end([question for question, one in self._asked.items() if now - one.at > KEPT])
        by_age = sorted(self._asked, key=lambda question: self._asked[question].at)
        self._end(by_age[: max(0, len(by_age) - MOST)])

    def _end(self, questions: list[Hashable]) -> list[asyncio.Task[_Found]]:
        ended = [self._asked.pop(question).seeking for question in questions]
        for seeking in ended:
            seeking.cancel()
        return ended

    async def close(self) -> None:
        """End what is under way."""
        await asyncio.gather(*self._end(list(self._asked)), return_exceptions=True)
