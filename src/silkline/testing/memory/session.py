"""MemorySession: an open crawl in memory. The methods of a `MemoryFrontier`, its admin and its internals run on one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from silkline.core.request import Request
from silkline.core.url import parse
from silkline.errors import UnknownCrawl
from silkline.frontier.admin_verbs.stats import levels_of
from silkline.frontier.overflow import Overflow, OverflowCount
from silkline.frontier.session import Tally
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.verbs.enqueue import member_of
from silkline.testing.memory.counts import stats
from silkline.testing.memory.crawl import MemoryCrawl

T = TypeVar("T")


def documented_as(original: type) -> Callable[[type[T]], type[T]]:
    """Give methods and properties without a docstring that of the *original*, so that `help` shows it."""

    def document(imitation: type[T]) -> type[T]:
        for name, member in vars(imitation).items():
            if not name.startswith("_") and not member.__doc__:
                member.__doc__ = getattr(original, name).__doc__
        return imitation

    return document


class MemoryServer:
    """The crawls that frontiers with the same address share."""

    def __init__(self) -> None:
        self.crawls: dict[str, MemoryCrawl] = {}


class MemorySession:
    """An open crawl in memory: what the three faces of a `MemoryFrontier` share."""

    def __init__(
        self, server: MemoryServer, stored: MemoryCrawl, overflow: Overflow | None, clock: Callable[[], int] | None
    ) -> None:
        self.server = server
        self.stored = stored
        self.overflow = overflow
        self._clock = clock
        self.tally = Tally()

    @property
    def crawl(self) -> str:
        return self.layout.keys.crawl

    @property
    def layout(self) -> CrawlLayout:
        return self.stored.layout

    def at_now(self) -> MemoryCrawl:
        """Return the crawl after setting its time. Raises `UnknownCrawl` if it was removed."""
        if self.server.crawls.get(self.crawl) is not self.stored:
            raise UnknownCrawl(f"the crawl {self.crawl!r} was removed")
        self.stored.set_time(self.now())
        return self.stored

    def now(self) -> int:
        """Return the time in milliseconds."""
        return time.time_ns() // 1_000_000 if self._clock is None else self._clock()

    def report(self) -> None:
        """Add to the history what a program did that is no worker."""
        if (news := self.tally.take()) is not None and self.server.crawls.get(self.crawl) is self.stored:
            levels = levels_of(stats(self.at_now(), self.overflowing()))
            self.stored.history.add(self.stored.time.server, news, levels)
            self.tally.reported(news)

    def overflowing(self) -> OverflowCount:
        """Return how many requests wait in the overflow."""
        return self.overflow.tally(self.crawl) if self.overflow else OverflowCount(0, 0)

    def known(self, host: str) -> str:
        """Return *host*. Raises `ConfigError` if it is not a host."""
        self.layout.shard_of(host)
        return host

    def member(self, request: Request) -> str:
        return member_of(self.layout, request, parse(request.url))


def as_request(item: str | Request) -> Request:
    return item if isinstance(item, Request) else Request(item)
