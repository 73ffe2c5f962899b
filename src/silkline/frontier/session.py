"""CrawlSession: an open crawl with its connection. The methods of `Frontier`, `CrawlAdmin` and `FrontierInternals` run on one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from silkline.errors import UnknownCrawl
from silkline.frontier.overflow import Overflow
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import Flow
from silkline.frontier.transport.connection import AsyncConnection, drive
from silkline.frontier.verbs import lifecycle

R = TypeVar("R")


class CrawlSession:
    """What the three faces of an open crawl share. A change of settings replaces `layout` here, so that all of them see it."""

    def __init__(
        self,
        connection: AsyncConnection,
        layout: CrawlLayout,
        overflow: Overflow | None,
        clock: Callable[[], int] | None,
    ) -> None:
        self.connection = connection
        self.layout = layout
        self.overflow = overflow
        self._clock = clock

    async def run(self, flow: Flow[R]) -> R:
        """Run a flow. If the server does not have the crawl, raise an error that says what happened to it."""
        try:
            return await drive(self.connection, flow)
        except UnknownCrawl:
            await drive(self.connection, lifecycle.diagnose(self.layout))
            raise

    def now(self) -> float:
        """Return the time in seconds, by the clock that the frontier was opened with."""
        return time.time() if self._clock is None else self._clock() / 1000
