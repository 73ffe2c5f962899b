# Generated from session.py by tools/generate_sync.py. Do not edit: change that module and run `make sync`.
"""SyncCrawlSession: an open crawl with its connection, and a tally. `SyncFrontier`, `SyncCrawlAdmin` and `SyncFrontierInternals` run on one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from silkline.errors import SilklineError, UnknownCrawl
from silkline.frontier.admin_verbs import stats
from silkline.frontier.admin_verbs.stats import levels_of
from silkline.frontier.overflow import Overflow
from silkline.frontier.session import Tally
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import Flow, ask
from silkline.frontier.transport.sync.connection import SyncConnection, drive
from silkline.frontier.verbs import lifecycle
from silkline.frontier.verbs.history import add_history

R = TypeVar("R")


class SyncCrawlSession:
    """What the three faces of an open crawl share. A change of settings replaces `layout` here, so that all of them see it."""

    def __init__(
        self,
        connection: SyncConnection,
        layout: CrawlLayout,
        overflow: Overflow | None,
        clock: Callable[[], int] | None,
    ) -> None:
        self.connection = connection
        self.layout = layout
        self.overflow = overflow
        self._clock = clock
        self.tally = Tally()

    def run(self, flow: Flow[R]) -> R:
        """Run a flow. If the server does not have the crawl, raise an error that says what happened to it."""
        try:
            return drive(self.connection, flow)
        except UnknownCrawl:
            drive(self.connection, lifecycle.diagnose(self.layout))
            raise

    def report(self) -> None:
        """Add to the history what a program did that is no worker. If that fails, the next report has it."""
        if (news := self.tally.take()) is None:
            return
        with suppress(SilklineError):
            counted = drive(self.connection, stats.stats(self.layout))
            drive(self.connection, ask(add_history(self.layout.keys, news, levels_of(counted))))
            self.tally.reported(news)

    def now(self) -> float:
        """Return the time in seconds, by the clock that the frontier was opened with."""
        return time.time() if self._clock is None else self._clock() / 1000
