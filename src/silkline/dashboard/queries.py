"""What the pages ask the server for. Every question here costs the same however much there is."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from silkline.core.errors import SilklineError
from silkline.frontier.demand import Demand
from silkline.frontier.frontier import Frontier
from silkline.frontier.history import Point
from silkline.frontier.house import House
from silkline.frontier.inspection import Stats

MOST_CRAWLS = 50
"""Crawls that are shown together; more have to be chosen one by one."""
RECENT = 60.0
SHRINKING = 600.0
"""Seconds over which one sees whether a crawl gets on."""

T = TypeVar("T")
Range = Literal["hour", "day"]
SPANS: dict[Range, tuple[float, float]] = {"hour": (3600.0, 30.0), "day": (86_400.0, 900.0)}
"""How far back, and in which steps."""


class Standing(NamedTuple):
    """How one crawl stands."""

    frontier: Frontier
    stats: Stats
    demand: Demand
    points: list[Point]

    @property
    def name(self) -> str:
        return self.stats.crawl

    @property
    def pace(self) -> float:
        """Pages per second of late."""
        return pages_per_second(self.points)

    @property
    def failing(self) -> float | None:
        return error_rate(self.points)

    @property
    def drains_in(self) -> float | None:
        return drains_in(self.points, depth(self.stats))


class Unreadable(NamedTuple):
    """A crawl that cannot be shown, and why."""

    name: str
    error: str


class Answers(NamedTuple, Generic[T]):
    """What each crawl answered that could, which could not, and how many were not asked."""

    each: list[T]
    unreadable: list[Unreadable]
    left_out: int


async def ask_each(house: House, names: Sequence[str], ask: Callable[[Frontier], Awaitable[T]]) -> Answers[T]:
    """Ask these crawls the same. One that cannot be read is told of, and hides none of the others."""
    chosen = names[:MOST_CRAWLS]
    each, unreadable = list[T](), list[Unreadable]()
    for name, answer in (await house.each(chosen, ask)).items():
        if isinstance(answer, SilklineError):
            unreadable.append(Unreadable(name, str(answer)))
        else:
            each.append(answer)
    return Answers(each, unreadable, len(names) - len(chosen))


async def look(house: House, names: Sequence[str]) -> Answers[Standing]:
    """How these crawls stand, with their last hour."""
    return await ask_each(house, names, stand)


async def stand(frontier: Frontier) -> Standing:
    back, step = SPANS["hour"]
    stats, demand, points = await asyncio.gather(
        frontier.stats(), frontier.demand(), frontier.history(since=back, step=step)
    )
    return Standing(frontier, stats, demand, points)


async def days(standings: Sequence[Standing]) -> list[list[Point]]:
    """The last day of each."""
    back, step = SPANS["day"]
    return await asyncio.gather(*(one.frontier.history(since=back, step=step) for one in standings))


def summed(histories: Sequence[Sequence[Point]]) -> list[Point]:
    """Several histories as one: what was done is added up; how they stood is left to `depths`."""
    sums: dict[float, Point] = {}
    for points in histories:
        for point in points:
            into = sums.setdefault(point.time, Point(time=point.time, step=point.step))
            into.add(point)
    return [sums[time] for time in sorted(sums)]


def depths(histories: Sequence[Sequence[Point]], times: Sequence[float]) -> list[float | None]:
    """How much was still to be done in all crawls, step by step. A crawl that nobody looked at is as it was before."""
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
    """The last full steps: the newest one has only begun."""
    if len(points) < 2:
        return []
    return list(points[:-1])[-max(1, math.ceil(seconds / points[0].step)) :]


def pages_per_second(points: Sequence[Point]) -> float:
    late = recent(points)
    return sum(point.pages for point in late) / sum(point.step for point in late) if late else 0.0


def error_rate(points: Sequence[Point]) -> float | None:
    """Of all attempts of late, the part that failed; None without any."""
    late = recent(points, 300.0)
    errors, pages = sum(point.errors for point in late), sum(point.pages for point in late)
    return errors / (errors + pages) if errors + pages else None


def drains_in(points: Sequence[Point], left: int) -> float | None:
    """Seconds until nothing is left at the pace of late; infinite when it does not shrink, None when nobody knows."""
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
