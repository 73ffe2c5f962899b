"""The history of a crawl: what its workers did and how it stood, step by step, in two rings that never grow.

Beside it, what each of its hosts answered of late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self

import msgspec

from silkline.core.errors import ConfigError
from silkline.core.timing import BOUNDS, Timing
from silkline.frontier.answers import Answers, pack
from silkline.frontier.commands import Arg, Command
from silkline.frontier.effects import Flow, ask, ask_all
from silkline.frontier.keys import CrawlKeys, ShardKeys
from silkline.frontier.plan import Plan
from silkline.frontier.script import load


class Ring(NamedTuple):
    """A ring of so many steps of so many seconds; history.lua has the same."""

    name: str
    step: int
    size: int

    @property
    def span(self) -> int:
        return self.step * self.size


FINE = Ring("fine", 10, 360)
COARSE = Ring("coarse", 300, 288)
LATENCY_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds of the histogram of a step; a subset of those of a `Timing`."""
HOSTS_KEPT = 100_000
"""Hosts of a crawl whose answers are kept; those that were not heard of for longest make room."""
HOSTS_PER_CALL = 250
"""So that no call keeps the server busy for long."""


class Counts(msgspec.Struct, kw_only=True):
    """What was done in some time. The order of the fields is stored: new ones go to the end."""

    pages: int = 0
    items: int = 0
    bytes: int = 0
    links: int = 0
    ended: int = 0
    """Requests completed or buried."""
    errors: int = 0
    retried: int = 0
    buried: int = 0
    lost: int = 0
    missed: int = 0
    dropped: int = 0
    robots_denied: int = 0
    fetched: int = 0
    """Answers of web servers, whatever their status."""
    status_1xx: int = 0
    status_2xx: int = 0
    status_3xx: int = 0
    status_4xx: int = 0
    status_5xx: int = 0
    fetch_ms: int = 0
    """How long those answers took, together."""
    busy_ms: int = 0
    """How long requests were in the hands of workers, together."""
    up_to_100ms: int = 0
    up_to_250ms: int = 0
    up_to_500ms: int = 0
    up_to_1s: int = 0
    up_to_2500ms: int = 0
    up_to_5s: int = 0
    up_to_10s: int = 0
    up_to_30s: int = 0
    over_30s: int = 0

    @property
    def latency(self) -> float | None:
        """Seconds that an answer took on average."""
        return self.fetch_ms / self.fetched / 1000 if self.fetched else None

    def add(self, other: Counts) -> Self:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def minus(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) - getattr(other, name) for name in COUNTS})


COUNTS = Counts.__struct_fields__
HISTOGRAM = COUNTS[COUNTS.index("up_to_100ms") : COUNTS.index("over_30s") + 1]


class Levels(msgspec.Struct, kw_only=True, frozen=True):
    """How a crawl stood at one moment. The order of the fields is stored."""

    ready: int
    delayed: int
    leased: int
    done: int
    dead: int
    discarded: int
    overflow: int

    @property
    def depth(self) -> int:
        """All that is still to be done."""
        return self.ready + self.delayed + self.leased + self.overflow

    @property
    def ended(self) -> int:
        """All that is done with, one way or another."""
        return self.done + self.dead + self.discarded


LEVELS = Levels.__struct_fields__


class Point(Counts, kw_only=True):
    """One step of a history: what was counted from *time* on, for *step* seconds, and how the crawl stood last."""

    time: float
    step: float
    levels: Levels | None = None
    """None when nobody looked."""


def coarse_counts(timing: Timing) -> dict[str, int]:
    """The histogram of a step out of the finer one of a `Timing`."""
    sums = dict.fromkeys(HISTOGRAM, 0)
    for bound, count in zip((*BOUNDS, float("inf")), timing.counts, strict=True):
        place = sum(one < bound for one in LATENCY_BOUNDS)
        sums[HISTOGRAM[place]] += count
    return sums


def add_history(keys: CrawlKeys, counts: Counts, levels: Levels | None) -> Command[float]:
    """The reply is the time on the server."""
    args = (_numbers(counts, COUNTS), _numbers(levels, LEVELS) if levels else "")
    return Command(load("add_history"), (keys.settings,), args, lambda reply: int(reply) / 1000)


def _numbers(of: msgspec.Struct, names: Iterable[str]) -> str:
    return " ".join(str(int(getattr(of, name))) for name in names)


def read_ring(keys: CrawlKeys, ring: Ring, steps: int) -> Command[list[Point]]:
    def decode(reply: Sequence[bytes]) -> list[Point]:
        first = int(reply[0]) - len(reply) + 2
        return [read_point(ring, first + place, kept) for place, kept in enumerate(reply[1:])]

    return Command(load("history"), (keys.settings,), (ring.name, steps), decode)


def read_point(ring: Ring, number: int, kept: bytes) -> Point:
    """What is kept in a step's place, if it is of this step and not of one a round ago."""
    step, _, rest = kept.partition(b";")
    point = Point(time=float(number * ring.step), step=float(ring.step))
    if kept and int(step) == number:
        told, _, counted = rest.partition(b";")
        for name, word in zip(COUNTS, counted.split(), strict=False):
            setattr(point, name, int(word))
        point.levels = Levels(**dict(zip(LEVELS, map(int, told.split()), strict=False))) if told else None
    return point


def history(plan: Plan, since: float, step: float | None) -> Flow[list[Point]]:
    ring, steps = which_ring(since, step)
    points = yield from ask(read_ring(plan.keys, ring, steps))
    return merged(points, step)


def which_ring(since: float, step: float | None) -> tuple[Ring, int]:
    """The ring that has the last *since* seconds in steps as small as asked for, and how many of its steps those are."""
    if not isinstance(since, int | float) or not 0 < since <= COARSE.span:
        raise ConfigError(f"a history goes back at most {COARSE.span} seconds, got since={since!r}")
    if step is not None and (not isinstance(step, int | float) or not 0 < step <= COARSE.span):
        raise ConfigError(f"a step of a history is from {FINE.step} to {COARSE.span} seconds, got {step!r}")
    ring = FINE if since <= FINE.span else COARSE
    return ring, min(-(-int(since) // ring.step) + 1, ring.size)


def merged(points: Sequence[Point], step: float | None) -> list[Point]:
    """Points in larger steps: of each the counts are summed, and how the crawl stood last is kept."""
    if step is None or not points or step <= points[0].step:
        return list(points)
    sums: dict[float, Point] = {}
    for point in points:
        start = point.time // step * step
        into = sums.setdefault(start, Point(time=start, step=float(step)))
        into.add(point)
        into.levels = point.levels or into.levels
    return list(sums.values())


def add_answers(plan: Plan, told: Mapping[str, Answers]) -> Flow[None]:
    """Send to each shard what its hosts answered."""
    by_shard: dict[ShardKeys, list[Arg]] = {}
    for host, answers in told.items():
        by_shard.setdefault(plan.shard_of(host), []).extend((host, pack(answers)))
    most, size = -(-HOSTS_KEPT // plan.settings.shards), 2 * HOSTS_PER_CALL
    yield from ask_all(
        tell_answers(keys, most, words[first : first + size])
        for keys, words in by_shard.items()
        for first in range(0, len(words), size)
    )


def tell_answers(keys: ShardKeys, most: int, words: Sequence[Arg]) -> Command[int]:
    """The reply is of how many hosts they are kept; a server without memory does not keep these."""
    return Command(load("add_answers"), (keys.root,), (most, *words), int, b"0")
