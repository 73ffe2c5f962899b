"""The history of a crawl: its counts and levels over time, in two ring buffers of fixed size, and its counts by handler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import msgspec

from silkline.core.histogram import BOUNDS, Histogram
from silkline.errors import ConfigError
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import Command, Flow, ask, load


class HistoryRing(NamedTuple):
    """A ring buffer of *size* steps of *step* seconds; history.lua has the same numbers."""

    name: str
    step: int
    size: int

    @property
    def span(self) -> int:
        return self.step * self.size


FINE = HistoryRing("fine", 10, 360)
COARSE = HistoryRing("coarse", 300, 288)
LATENCY_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds of the histogram of a step; a subset of those of a `Histogram`."""


class Counts(msgspec.Struct, kw_only=True):
    """What workers and other programs did in a period. The order of the fields is stored: new ones go to the end."""

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
    """Responses of web servers, with any status."""
    status_1xx: int = 0
    status_2xx: int = 0
    status_3xx: int = 0
    status_4xx: int = 0
    status_5xx: int = 0
    fetch_ms: int = 0
    """Total duration of these fetches."""
    busy_ms: int = 0
    """Total time for which workers held requests."""
    up_to_100ms: int = 0
    up_to_250ms: int = 0
    up_to_500ms: int = 0
    up_to_1s: int = 0
    up_to_2500ms: int = 0
    up_to_5s: int = 0
    up_to_10s: int = 0
    up_to_30s: int = 0
    over_30s: int = 0
    within_10ms: int = 0
    """The part of `up_to_100ms` that took at most this long; so are the next two. Earlier versions do not count them."""
    within_25ms: int = 0
    within_50ms: int = 0
    waited: int = 0
    """Claims of first attempts, if it is known when the request was enqueued. One that was released is counted again."""
    waited_ms: int = 0
    """How long they had waited, in total. Each wait is known to a second, and is rounded up."""
    waited_1s: int = 0
    """Those that had waited at most this long, and longer than the one before; so are the next ones."""
    waited_5s: int = 0
    waited_30s: int = 0
    waited_2min: int = 0
    waited_10min: int = 0
    waited_1h: int = 0
    waited_6h: int = 0
    waited_1d: int = 0
    waited_longer: int = 0
    revisited: int = 0
    """Visits of pages that had been visited before."""
    not_modified: int = 0
    """Those to which the server replied 304."""
    unchanged: int = 0
    """Those whose handler was not called, because their content was as it was."""

    @property
    def latency(self) -> float | None:
        """Average duration of a fetch in seconds."""
        return self.fetch_ms / self.fetched / 1000 if self.fetched else None

    def add(self, other: Counts) -> Self:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def minus(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) - getattr(other, name) for name in COUNTS})


COUNTS = Counts.__struct_fields__
FAST = {"within_10ms": 0.01, "within_25ms": 0.025, "within_50ms": 0.05}
"""Counts of fast responses, with their bounds in seconds."""
WAIT_BOUNDS = (1, 5, 30, 120, 600, 3600, 21_600, 86_400)
"""Upper bounds in seconds of the histogram of waiting times."""
WAITS = COUNTS[COUNTS.index("waited_1s") : COUNTS.index("waited_longer") + 1]
HISTOGRAM = COUNTS[COUNTS.index("up_to_100ms") : COUNTS.index("over_30s") + 1]


class Levels(msgspec.Struct, kw_only=True, frozen=True):
    """The requests of a crawl by state, at one moment. The order of the fields is stored: new ones go to the end."""

    ready: int
    delayed: int
    leased: int
    done: int
    dead: int
    discarded: int
    overflow: int
    server_memory: int = 0
    """Bytes that the server used for all crawls; 0 if it was not read. Of a cluster, those of the fullest primary."""

    @property
    def depth(self) -> int:
        """Requests that are not finished."""
        return self.ready + self.delayed + self.leased + self.overflow

    @property
    def ended(self) -> int:
        """Requests that are finished, in any way."""
        return self.done + self.dead + self.discarded


LEVELS = Levels.__struct_fields__


class Point(Counts, kw_only=True):
    """One step of a history: the counts of *step* seconds from *time* on, and the last levels in them."""

    time: float
    step: float
    levels: Levels | None = None
    """None if no worker reported them."""


def total_of(points: Iterable[Counts]) -> Counts:
    """Add up the counts of several steps."""
    total = Counts()
    for point in points:
        total.add(point)
    return total


def coarse_counts(timing: Histogram) -> dict[str, int]:
    """Convert a `Histogram` into the coarser one of a step."""
    sums = dict.fromkeys((*HISTOGRAM, *FAST), 0)
    for bound, count in zip((*BOUNDS, float("inf")), timing.counts, strict=True):
        place = sum(one < bound for one in LATENCY_BOUNDS)
        sums[HISTOGRAM[place]] += count
        for name, most in FAST.items():
            sums[name] += count if bound <= most else 0
    return sums


def wait_quantile(counts: Counts, part: float) -> float | None:
    """Return a quantile of the waiting times in seconds, interpolated within its bucket; None if none was counted."""
    lower, before, wanted = 0, 0, part * counts.waited
    for name, upper in zip(WAITS, WAIT_BOUNDS, strict=False):
        upto: int = before + getattr(counts, name)
        if upto >= wanted and upto > before:
            return lower + (upper - lower) * (wanted - before) / (upto - before)
        lower, before = upper, upto
    return float(WAIT_BOUNDS[-1]) if counts.waited else None


def quantile(counts: Counts, part: float) -> float | None:
    """Return a quantile of the response times in seconds, interpolated within its bucket; None without responses."""
    lower, before, wanted = 0.0, 0, part * counts.fetched
    for upper, upto in _cumulative(counts):
        if upto >= wanted and upto > before:
            return lower + (upper - lower) * (wanted - before) / (upto - before)
        lower, before = upper, upto
    return LATENCY_BOUNDS[-1] if counts.fetched else None


def _cumulative(counts: Counts) -> Iterator[tuple[float, int]]:
    """Yield each bound, and how many responses took at most that long."""
    if counts.within_50ms:  # else none was that fast, or an earlier version did not count them
        yield from ((bound, getattr(counts, name)) for name, bound in FAST.items())
    total = 0
    for name, bound in zip(HISTOGRAM, LATENCY_BOUNDS, strict=False):
        total += getattr(counts, name)
        yield bound, total


# ── counts by handler ──

MOST_HANDLERS = 50
"""Handlers that a crawl counts apart; add_history.lua has the same number."""
OTHERS = "(others)"
"""The name under which further handlers are counted."""
MOST_NAME_BYTES = 100


class HandlerCounts(msgspec.Struct, kw_only=True):
    """What workers did with the pages of one handler (in Scrapy: a callback) since the crawl began."""

    pages: int = 0
    """Pages whose handler completed."""
    items: int = 0
    failures: int = 0
    """Attempts that were retried or buried, for any reason."""
    exceptions: int = 0
    """How often the handler itself raised an exception."""
    dead: int = 0
    """Requests that became dead letters."""
    timing: Histogram = msgspec.field(default_factory=Histogram)
    """How long the handler ran, without the download; not measured in Scrapy."""

    @property
    def p50(self) -> float | None:
        """The median duration of the handler in seconds."""
        return self.timing.quantile(0.5)

    @property
    def p95(self) -> float | None:
        return self.timing.quantile(0.95)

    def add(self, other: HandlerCounts) -> Self:
        for name in _HANDLER_COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.timing.add(other.timing)
        return self

    @property
    def numbers(self) -> tuple[int, ...]:
        """All counts as integers. The order is stored: new ones go to the end."""
        counts = (getattr(self, name) for name in _HANDLER_COUNTS)
        return (*counts, round(self.timing.seconds * 1_000_000), *self.timing.counts)


_HANDLER_COUNTS = ("pages", "items", "failures", "exceptions", "dead")
HandlerNumbers = Mapping[str, tuple[int, ...]]
"""`HandlerCounts.numbers` by handler."""


def handler_counts(numbers: Sequence[int]) -> HandlerCounts:
    """The inverse of `HandlerCounts.numbers`."""
    size = len(_HANDLER_COUNTS)
    buckets = list(numbers[size + 1 : size + 2 + len(BOUNDS)])
    named = dict(zip(_HANDLER_COUNTS, numbers, strict=False))
    return HandlerCounts(**named, timing=Histogram(seconds=numbers[size] / 1_000_000, counts=buckets))


def handlers(keys: CrawlKeys) -> Command[dict[str, HandlerCounts]]:
    """Read the counts by handler, those with the most pages first."""

    def decode(reply: bytes) -> dict[str, HandlerCounts]:
        lines = (line.partition(";") for line in reply.decode(errors="replace").splitlines())
        return ranked({name: handler_counts([*map(int, numbers.split())]) for numbers, _, name in lines})

    return Command(load("handlers"), (keys.settings,), (), decode)


def ranked(found: Mapping[str, HandlerCounts]) -> dict[str, HandlerCounts]:
    """Sort handlers by their pages and failures; further ones, which are counted together, come last."""
    return dict(sorted(found.items(), key=lambda one: (one[0] == OTHERS, -one[1].pages, -one[1].failures, one[0])))


def unused_handlers(names: Iterable[str], counted: Mapping[str, HandlerCounts]) -> list[str]:
    """Return the handlers among *names* that no page or failure was counted for; none if some are counted together."""
    if not counted or OTHERS in counted:
        return []
    return [name for name in names if handler_name(name) not in counted]


def handler_name(name: str) -> str:
    """Return the name of a handler as it is stored: in Scrapy, names come from requests, and may be hostile."""
    text = "".join(letter if letter.isprintable() else "?" for letter in name)
    return text.encode(errors="replace")[:MOST_NAME_BYTES].decode(errors="ignore")


# ── the rings ──


def add_history(
    keys: CrawlKeys, counts: Counts, levels: Levels | None, by_handler: HandlerNumbers | None = None
) -> Command[float]:
    """Add to the current step; return the time on the server."""
    lines = [f"{' '.join(map(str, numbers))};{handler_name(name)}\n" for name, numbers in (by_handler or {}).items()]
    args = (_numbers(counts, COUNTS), _numbers(levels, LEVELS) if levels else "", "".join(lines))
    return Command(load("add_history"), (keys.settings,), args, lambda reply: int(reply) / 1000)


def _numbers(of: msgspec.Struct, names: Iterable[str]) -> str:
    return " ".join(str(int(getattr(of, name))) for name in names)


def read_ring(keys: CrawlKeys, ring: HistoryRing, steps: int) -> Command[list[Point]]:
    def decode(reply: Sequence[bytes]) -> list[Point]:
        first = int(reply[0]) - len(reply) + 2
        return [read_point(ring, first + place, kept) for place, kept in enumerate(reply[1:])]

    return Command(load("history"), (keys.settings,), (ring.name, steps), decode)


def read_point(ring: HistoryRing, number: int, kept: bytes) -> Point:
    """Read the stored step, unless its place still holds an earlier round of the ring."""
    step, _, rest = kept.partition(b";")
    point = Point(time=float(number * ring.step), step=float(ring.step))
    if kept and int(step) == number:
        levels, _, counted = rest.partition(b";")
        for name, word in zip(COUNTS, counted.split(), strict=False):
            setattr(point, name, int(word))
        point.levels = Levels(**dict(zip(LEVELS, map(int, levels.split()), strict=False))) if levels else None
    return point


def history(layout: CrawlLayout, since: float, step: float | None) -> Flow[list[Point]]:
    ring, steps = which_ring(since, step)
    points = yield from ask(read_ring(layout.keys, ring, steps))
    return merged(points, step)


def which_ring(since: float, step: float | None) -> tuple[HistoryRing, int]:
    """Return the ring that covers the last *since* seconds in the smallest steps, and the number of steps."""
    if not isinstance(since, int | float) or not 0 < since <= COARSE.span:
        raise ConfigError(f"since must be more than 0 and at most {COARSE.span} seconds, got {since!r}")
    if step is not None and (not isinstance(step, int | float) or not 0 < step <= COARSE.span):
        raise ConfigError(f"step must be more than 0 and at most {COARSE.span} seconds, got {step!r}")
    ring = FINE if since <= FINE.span else COARSE
    return ring, min(-(-int(since) // ring.step) + 1, ring.size)


def merged(points: Sequence[Point], step: float | None) -> list[Point]:
    """Merge points into larger steps: counts are summed, and the last levels are kept."""
    if step is None or not points or step <= points[0].step:
        return list(points)
    sums: dict[float, Point] = {}
    for point in points:
        start = point.time // step * step
        into = sums.setdefault(start, Point(time=start, step=float(step)))
        into.add(point)
        into.levels = point.levels or into.levels
    return list(sums.values())
