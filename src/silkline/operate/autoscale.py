"""Autoscaling: how many workers a crawl can use now.

Workers are wanted for two reasons, and the lesser of the two counts. What waits is to be done within a target time, at the
speed that workers were measured to have. And there is no use for more places than there are pages that may be under way: ten
million requests for one polite host are work for one worker.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from silkline.core.errors import ConfigError
from silkline.frontier.demand import Demand
from silkline.frontier.frontier import Frontier
from silkline.frontier.history import COARSE, Point
from silkline.frontier.inspection import Stats
from silkline.frontier.roster import WorkerState
from silkline.worker.pace import Pace

FIRST_GUESS = 1.0
"""Seconds that a page is taken to need before any was measured."""
MEASURED_OVER = 300.0
"""Seconds of history from which the speed of workers is read."""
AIM = 0.9
"""The part of the target time that is aimed at: starting workers takes time too."""
LEAST_LEFT = 0.05
"""The part of the target time that is left at least, however late it is: a fleet must not explode at the end."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted: all done within *drain* seconds of its coming in, by *least* to *most* workers."""

    drain: float = 3600.0
    least: int = 0
    most: int = 100

    def __post_init__(self) -> None:
        if not isinstance(self.drain, int | float) or not 10 <= self.drain <= COARSE.span:
            raise ConfigError(f"the target is a time from 10 to {COARSE.span} seconds, got {self.drain!r}")
        if not 0 <= self.least <= self.most:
            raise ConfigError(f"workers are from 0 on, the least first, got {self.least} to {self.most}")


class Mark(msgspec.Struct, frozen=True):
    """At some time so much was to be done, and so much was done with."""

    time: float
    depth: int
    ended: int


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What the arithmetic needs to know."""

    now: Mark
    past: Sequence[Mark] = ()
    """How it stood before, as far as anybody looked."""
    useful: int
    """Pages that could be under way."""
    in_flight: int
    workers: int = 0
    places: float = Pace().concurrency
    """Pages that one worker has under way at most."""
    seconds_per_page: float | None = None
    """For how long a page takes a worker's place, as measured."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers are wanted, and why."""

    workers: int
    reason: str
    by_depth: int
    """To be done in time."""
    by_hosts: int
    """To have under way all that may be."""
    by_flight: int
    """To hold what is under way now."""
    running: int
    depth: int
    useful: int
    in_flight: int
    pages_per_second: float
    """That one worker can do."""


def wanted(situation: Situation, target: Target) -> Advice:
    """The arithmetic, and nothing else."""
    places = max(1.0, situation.places)
    speed = places / max(situation.seconds_per_page or FIRST_GUESS, 0.001)
    by_depth = math.ceil(required_rate(situation, target.drain) / speed - 1e-9)
    by_hosts, by_flight = math.ceil(situation.useful / places), math.ceil(situation.in_flight / places)
    idle = not situation.now.depth
    number = max(by_flight, min(by_depth, by_hosts), 0 if idle else 1)
    return Advice(
        workers=min(max(number, target.least), max(target.most, target.least)),
        reason=_reason(number, target, by_depth, by_hosts, by_flight, idle=idle),
        by_depth=by_depth,
        by_hosts=by_hosts,
        by_flight=by_flight,
        running=situation.workers,
        depth=situation.now.depth,
        useful=situation.useful,
        in_flight=situation.in_flight,
        pages_per_second=round(speed, 2),
    )


def required_rate(situation: Situation, drain: float) -> float:
    """Requests a second at which everything is done in time.

    What there was to be done at some moment must be done *drain* seconds later. So of every such moment it is known how much
    of that is left, and how much time for it: the most pressing one counts. If only what waits now counted, fewer and
    fewer workers would be wanted while it is done, and the end would never come.
    """
    aim, now = drain * AIM, situation.now
    rates = [now.depth / aim]
    for mark in situation.past:
        if now.time - drain < mark.time <= now.time:
            ended = max(0, now.ended - mark.ended)  # less than nothing when dead letters were revived meanwhile
            left = min(mark.depth - ended, now.depth)
            rates.append(left / max(mark.time + aim - now.time, drain * LEAST_LEFT))
    return max(0.0, *rates)


def _reason(number: int, target: Target, by_depth: int, by_hosts: int, by_flight: int, *, idle: bool) -> str:
    if number < target.least:
        return f"at least {target.least} are to be kept"
    if number > target.most:
        return f"{number} would be of use, but no more than {target.most} are allowed"
    if idle:
        return "nothing is left to do"
    if number == by_flight and by_flight > min(by_depth, by_hosts):
        return "they hold what is under way"
    if by_hosts <= by_depth:
        return "no more pages may be under way at the pace of their hosts"
    return f"with them, what waits can be done within {target.drain:g} s"


async def advise(frontier: Frontier, target: Target) -> Advice:
    """Look at the crawl and say how many workers it can use."""
    stats, demand = await frontier.stats(), await frontier.demand()
    points = await frontier.history(since=max(target.drain, MEASURED_OVER))
    return wanted(situation_of(stats, demand, points, await frontier.workers(limit=1000)), target)


def situation_of(stats: Stats, demand: Demand, points: Sequence[Point], workers: Iterable[WorkerState]) -> Situation:
    alive = [worker for worker in workers if worker.alive and worker.info.get("state") != "stopping"]
    places = [float(worker.info["concurrency"]) for worker in alive if worker.info.get("concurrency")]
    last = points[-1].time + points[-1].step if points else 0.0
    recent = [point for point in points if point.time > last - MEASURED_OVER - point.step]
    ended, busy = sum(point.ended for point in recent), sum(point.busy_ms for point in recent) / 1000
    depth = 0 if stats.state == "cancelled" else stats.pending + stats.leased + stats.overflow
    if stats.state == "paused":
        depth = stats.leased
    return Situation(
        now=Mark(last, depth, stats.done + stats.dead + stats.discarded),
        past=[Mark(point.time + point.step / 2, one.depth, one.ended) for point in points if (one := point.levels)],
        useful=demand.useful,
        in_flight=stats.leased,
        workers=len(alive),
        places=sum(places) / len(places) if places else Pace().concurrency,
        seconds_per_page=busy / ended if ended and busy else None,
    )


class Calm:
    """Follows advice up at once, and down only when it has been lower for a while: places open and close by the second."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._heard: deque[tuple[float, int]] = deque()

    def follow(self, now: float, workers: int) -> int:
        self._heard.append((now, workers))
        while self._heard[0][0] < now - self._seconds:
            self._heard.popleft()
        return max(workers for _, workers in self._heard)
