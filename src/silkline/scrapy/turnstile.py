"""Turnstile: callbacks begin one by one, with turns of the event loop in between.

Pages of one site tend to land together. Were their callbacks to run one after the other without a break, what is claimed
for the places they left would begin only after the last of them, and the site would have nothing to do meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

TURNS = 3
"""Of the loop, between two: the answer to a claim comes in, the engine takes it, and its download begins."""


class Turnstile:
    """`enter` it before a callback is called."""

    def __init__(self) -> None:
        self._waiting: deque[Deferred[None]] = deque()
        self._taken = False

    async def enter(self) -> None:
        if self._taken:
            turn: Deferred[None] = Deferred()
            self._waiting.append(turn)
            await maybe_deferred_to_future(turn)
        else:
            self._taken = True
            _soon(self._count_down, TURNS)

    def _count_down(self, turns: int) -> None:
        if turns:
            _soon(self._count_down, turns - 1)
        elif self._waiting:
            self._waiting.popleft().callback(None)
            _soon(self._count_down, TURNS)
        else:
            self._taken = False


def _soon(act: Callable[..., object], *args: Any) -> None:
    """Call it in the next turn of the loop, or of the reactor where it has none."""
    try:
        asyncio.get_running_loop().call_soon(act, *args)
    except RuntimeError:
        from twisted.internet import reactor  # noqa: PLC0415 - importing it chooses one, so not before Scrapy has

        call_later: Callable[..., object] = reactor.callLater
        call_later(0, act, *args)
