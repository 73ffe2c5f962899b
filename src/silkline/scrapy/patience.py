"""Patience: what has to reach the server is tried until it does. A server that is away for a minute costs a minute."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from silkline.core.errors import StoreUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


class Patience:
    """Shared by all who speak to one server, so that a trouble is told once, and its end once."""

    def __init__(self) -> None:
        self.trouble: str | None = None

    async def persist(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do it, however long the server is away."""
        pause = FIRST_PAUSE
        while True:
            try:
                answer = await act()
            except StoreUnavailable as error:
                if self.trouble is None:
                    log.warning("the crawl waits for its server: %s. Nothing is lost", error)
                self.trouble = str(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                if self.trouble is not None:
                    log.warning("the server answers again, the crawl goes on")
                    self.trouble = None
                return answer
