"""The queries of the pages. Their cost does not depend on the size of the crawls."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from silkline.errors import SilklineError
from silkline.frontier.admin_verbs.stats import CrawlStatus, Demand, Stats
from silkline.frontier.crawl_server import CrawlServer
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.history import Point
from silkline.ops.notices import Notice, crawl_notices, urgency

MOST_CRAWLS = 50
"""Maximum number of crawls shown together; others must be selected."""
RECENT = 60.0
SHRINKING = 600.0
"""Seconds over which the time left is estimated."""

T = TypeVar("T")
Range = Literal["hour", "day"]
SPANS: dict[Range, tuple[float, float]] = {"hour": (3600.0, 30.0), "day": (86_400.0, 900.0)}
"""Length of the period and of its steps, in seconds."""


class CrawlOverview(NamedTuple):
    """The state and recent history of one crawl."""

    frontier: Frontier
    status: CrawlStatus
    demand: Demand
    points: list[Point]

    @property
    def stats(self) -> Stats:
        return self.status.stats

    @property
    def notices(self) -> list[Notice]:
        return crawl_notices(self.status)

    @property
    def name(self) -> str:
        return self.stats.crawl

    @property
    def pace(self) -> float:
        """Recent pages per second."""
        return pages_per_second(self.points)

    @property
    def failing(self) -> float | None:
        return error_rate(self.points)

    @property
    def drains_in(self) -> float | None:
        return drains_in(self.points, depth(self.stats))


class UnreadableCrawl(NamedTuple):
    """A crawl that cannot be shown, and why."""

    name: str
    error: str


class Results(NamedTuple, Generic[T]):
    """The results per crawl, the crawls that cannot be read, and the number of crawls left out."""

    each: list[T]
    unreadable: list[UnreadableCrawl]
    left_out: int


async def ask_each(server: CrawlServer, names: Sequence[str], ask: Callable[[Frontier], Awaitable[T]]) -> Results[T]:
    """Run a query on each crawl. A crawl that cannot be read is reported and does not affect the others."""
    chosen = names[:MOST_CRAWLS]
    each, unreadable = list[T](), list[UnreadableCrawl]()
    for name, answer in (await server.each(chosen, ask)).items():
        if isinstance(answer, SilklineError):
            unreadable.append(UnreadableCrawl(name, str(answer)))
        else:
            each.append(answer)
    return Results(each, unreadable, len(names) - len(chosen))


async def look(server: CrawlServer, names: Sequence[str]) -> Results[CrawlOverview]:
    """Return the state of these crawls, with the history of the last hour. Those in trouble come first."""
    found = await ask_each(server, names, crawl_overview)
    return found._replace(each=sorted(found.each, key=lambda one: urgency(one.notices)))


async def crawl_overview(frontier: Frontier) -> CrawlOverview:
    back, step = SPANS["hour"]
    status, demand, points = await asyncio.gather(
        frontier.admin.status(), frontier.admin.demand(), frontier.admin.history(since=back, step=step)
    )
    return CrawlOverview(frontier, status, demand, points)


async def days(standings: Sequence[CrawlOverview]) -> list[list[Point]]:
    """Return the history of the last day of each crawl."""
    back, step = SPANS["day"]
    return await asyncio.gather(*(one.frontier.admin.history(since=back, step=step) for one in standings))


def summed(histories: Sequence[Sequence[Point]]) -> list[Point]:
    """Add up several histories. Only counts are summed; see `depths` for the queue lengths."""
    sums: dict[float, Point] = {}
    for points in histories:
        for point in points:
            into = sums.setdefault(point.time, Point(time=point.time, step=point.step))
            into.add(point)
    return [sums[time] for time in sorted(sums)]


def depths(histories: Sequence[Sequence[Point]], times: Sequence[float]) -> list[float | None]:
    """Return the total queue length of all crawls per step. A crawl without a sample keeps its last value."""
    totals: dict[float, float] = {}
    for points in histories:
        known: float | None = None
        for point in points:
            known = point.levels.depth if point.levels else known
            if known is not None:
                totals[point.time] = totals.get(point.time, 0.0) + known
    return [totals.get(time) for time in times]


def depth(stats: Stats) -> int:
    return stats.ready + stats.delayed + stats.leased + stats.overflow


def recent(points: Sequence[Point], seconds: float = RECENT) -> list[Point]:
    """Return the last complete steps, without the newest, which is still in progress."""
    if len(points) < 2:
        return []
    return list(points[:-1])[-max(1, math.ceil(seconds / points[0].step)) :]


def pages_per_second(points: Sequence[Point]) -> float:
    late = recent(points)
    return sum(point.pages for point in late) / sum(point.step for point in late) if late else 0.0


def error_rate(points: Sequence[Point]) -> float | None:
    """Return the fraction of recent attempts that failed; None without attempts."""
    late = recent(points, 300.0)
    errors, pages = sum(point.errors for point in late), sum(point.pages for point in late)
    return errors / (errors + pages) if errors + pages else None


def drains_in(points: Sequence[Point], left: int) -> float | None:
    """Return the estimated seconds until the queue is empty; infinite if it does not shrink, None if unknown."""
    if left == 0:
        return 0.0
    known = [point for point in recent(points, SHRINKING) if point.levels]
    if len(known) < 2:
        return None
    first, last = known[0], known[-1]
    assert first.levels
    assert last.levels
    gone = first.levels.depth - last.levels.depth
    return left * (last.time - first.time) / gone if gone > 0 else math.inf
