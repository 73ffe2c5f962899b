"""Autoscaling: how many workers a crawl can use now.

The recommendation is the smaller of two numbers: the workers needed to finish the queue within the target time at their
measured speed, and the workers needed to run all pages in parallel that the rate limits of the hosts allow. Ten million
requests for one host need only one worker.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from silkline.errors import ConfigError
from silkline.frontier.admin_verbs.stats import Demand, Stats
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.history import COARSE, Point
from silkline.frontier.verbs.workers import ALL_WORKERS, WorkerState
from silkline.worker.options import WorkerOptions

FIRST_GUESS = 1.0
"""Assumed seconds per page until pages are measured."""
MEASURED_OVER = 300.0
"""Seconds of history over which the speed of workers is measured."""
AIM = 0.9
"""Part of the target time to aim at: starting workers takes time too."""
LEAST_LEFT = 0.05
"""Minimum part of the target time to divide by, so that the number of workers does not explode near the deadline."""


class ScalingTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Finish requests within *drain* seconds of their arrival, with *least* to *most* workers."""

    drain: float = 3600.0
    least: int = 0
    most: int = 100

    def __post_init__(self) -> None:
        if not isinstance(self.drain, int | float) or not 10 <= self.drain <= COARSE.span:
            raise ConfigError(f"the target time must be between 10 and {COARSE.span} seconds, got {self.drain!r}")
        if not 0 <= self.least <= self.most:
            raise ConfigError(f"least must be between 0 and most, got least={self.least}, most={self.most}")


class DepthSample(msgspec.Struct, frozen=True):
    """The queue at one time: requests left to do, and requests that have ended."""

    time: float
    depth: int
    ended: int


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the computation."""

    now: DepthSample
    past: Sequence[DepthSample] = ()
    """Earlier samples of the queue, as far as they were recorded."""
    useful: int
    """Pages that could be in progress."""
    in_flight: int
    workers: int = 0
    places: float = WorkerOptions().concurrency
    """Maximum pages in progress of one worker."""
    seconds_per_page: float | None = None
    """Measured seconds for which a page occupies a worker's slot."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The recommended number of workers and the reason."""

    workers: int
    reason: str
    by_depth: int
    """Workers needed to meet the target time."""
    by_hosts: int
    """Workers needed to run all pages that the hosts allow."""
    by_flight: int
    """Workers needed for the pages in progress now."""
    running: int
    depth: int
    useful: int
    in_flight: int
    pages_per_second: float
    """Throughput of one worker."""


def wanted(situation: Situation, target: ScalingTarget) -> Advice:
    """Compute the recommendation. No I/O."""
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
    """Return the requests per second needed to meet the target time.

    Requests queued at some moment must be done *drain* seconds later. For every past sample, the requests that are left and
    the remaining time give a rate; the highest rate counts. With the current queue alone, the recommendation would fall as
    the queue shrinks, and the queue would never be finished.
    """
    aim, now = drain * AIM, situation.now
    rates = [now.depth / aim]
    for mark in situation.past:
        if now.time - drain < mark.time <= now.time:
            ended = max(0, now.ended - mark.ended)  # negative if dead letters were revived in the meantime
            left = min(mark.depth - ended, now.depth)
            rates.append(left / max(mark.time + aim - now.time, drain * LEAST_LEFT))
    return max(0.0, *rates)


def _reason(number: int, target: ScalingTarget, by_depth: int, by_hosts: int, by_flight: int, *, idle: bool) -> str:
    if number < target.least:
        return f"the minimum is {target.least}"
    if number > target.most:
        return f"the crawl could use {number}, but the maximum is {target.most}"
    if idle:
        return "the crawl has nothing left to do"
    if number == by_flight and by_flight > min(by_depth, by_hosts):
        return "the running workers have pages in progress"
    if by_hosts <= by_depth:
        return "the rate limits of the hosts allow no more pages in parallel"
    return f"enough to finish the queue within {target.drain:g} s"


async def advise(frontier: Frontier, target: ScalingTarget) -> Advice:
    """Read the state of the crawl and return the recommended number of workers."""
    stats, demand = await frontier.admin.stats(), await frontier.admin.demand()
    points = await frontier.admin.history(since=max(target.drain, MEASURED_OVER))
    return wanted(situation_of(stats, demand, points, await frontier.admin.workers(limit=ALL_WORKERS)), target)


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
        now=DepthSample(last, depth, stats.done + stats.dead + stats.discarded),
        past=[
            DepthSample(point.time + point.step / 2, one.depth, one.ended) for point in points if (one := point.levels)
        ],
        useful=demand.useful,
        in_flight=stats.leased,
        workers=len(alive),
        places=sum(places) / len(places) if places else WorkerOptions().concurrency,
        seconds_per_page=busy / ended if ended and busy else None,
    )


class ScaleDownDelay:
    """Scales up at once, but down only after the recommendation has been lower for some time, because it fluctuates."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._heard: deque[tuple[float, int]] = deque()

    def follow(self, now: float, workers: int) -> int:
        self._heard.append((now, workers))
        while self._heard[0][0] < now - self._seconds:
            self._heard.popleft()
        return max(workers for _, workers in self._heard)
