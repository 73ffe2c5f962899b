"""The hosts of a crawl: their state, their own politeness, and counts of their recent HTTP statuses.

The counts decay: when their sum exceeds a thousand, all are halved. So they show the recent state of a host in constant space.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import msgspec

from silkline.core.politeness import MAX_DELAY, Politeness
from silkline.core.request import is_time
from silkline.errors import ConfigError
from silkline.frontier.store.keys import ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import Arg, Command, Flow, as_text, ask, ask_all, load

LOOKED_AT = 1000
"""Hosts among which those with the most requests are searched; more would block the server for too long."""
HOSTS_KEPT = 100_000
"""Hosts of a crawl whose status counts are kept. The hosts with the oldest counts are dropped first."""
HOSTS_PER_CALL = 250
"""Limits the time that a call takes on the server."""
MOST_COUNTED = 1_000
"""Sum of the counts of a host above which they are halved; status_counts.lua has the same."""
_REPORTED, _KEPT, _CPU = struct.Struct("<6HI"), struct.Struct("<6HI"), struct.Struct("<I")
CPU_STEP = 0.0001
"""Seconds: CPU time is stored in whole steps."""


class HostState(NamedTuple):
    """The state of one host."""

    host: str
    place: str
    """ready, waiting, busy (at its cap), paused, resting or unknown"""
    opens_in: float
    queued: int
    leased: int
    delay: float
    """The current delay; `slowed_from` says whether it is longer than usual."""
    concurrency: int
    burst: int
    blocked_until: float | None
    paused: bool
    pages: int
    slowed_from: float | None = None
    """The usual delay of a host that was slowed down, else None."""
    crawl_delay: float | None = None
    """The Crawl-delay of robots.txt. It applies unless the host has its own delay."""
    answers: StatusCounts | None = None
    """Counts of recent HTTP statuses, if workers have sent any."""
    has_share: bool = False
    """Whether the host has reached its share of the capacity (`host_share`)."""

    @property
    def pace(self) -> str:
        """The delay in words."""
        if self.slowed_from is None:
            return f"{self.delay:g} s"
        return f"slowed to {self.delay:.3g} s, decaying to {self.slowed_from:g} s"

    @property
    def short_pace(self) -> str:
        """The delay in fewer words."""
        return self.pace if self.slowed_from is None else f"{self.delay:.3g} s (slowed)"


def most_cpu_first(host: HostState) -> float:
    """Sort key: hosts whose recent responses took the most CPU time first."""
    return -host.answers.cpu if host.answers else 0.0


def most_trouble_first(host: HostState) -> tuple[float, int]:
    """Sort key: hosts with the largest share of failed responses first, then those with the most responses."""
    answers = host.answers
    return (-answers.trouble, -answers.total) if answers and answers.trouble else (0.0, 0)


def hosts(layout: CrawlLayout, limit: int, named: Sequence[str]) -> Flow[list[HostState]]:
    """Return the hosts named, or the *limit* hosts with the most requests."""
    if named:
        rows = yield from ask_all(hosts_command(layout.shard_of(host), 1, (host,)) for host in named)
        return [states[0] for states in rows]
    found = yield from ask_all(hosts_command(keys, limit, ()) for keys in layout.shards)
    everything = (state for states in found for state in states)
    return heapq.nsmallest(limit, everything, key=lambda state: (-state.queued, state.host))


def enough_hosts(layout: CrawlLayout, least: int, among: int = LOOKED_AT) -> int:
    """Return the limit to pass to `hosts` so that all shards together return about *among* hosts, and each at least *least*."""
    return max(least, among // layout.settings.shards)


def host_state(layout: CrawlLayout, host: str) -> Flow[HostState]:
    return (yield from ask(hosts_command(layout.shard_of(host), 1, (host,))))[0]


def hosts_command(keys: ShardKeys, most: int, named: Sequence[str]) -> Command[list[HostState]]:
    def decode(rows: list[list[Any]]) -> list[HostState]:
        return [read_host(row) for row in rows]

    return Command(load("hosts"), (keys.ledger,), (most, *named), decode)


def read_host(row: list[Any]) -> HostState:
    host, place, opens_in, queued, leased, delay, concurrency, burst, blocked, paused, pages, *more = row
    usual, asked, answers, has_share = more
    return HostState(
        host=host.decode(),
        place=place.decode(),
        opens_in=float(opens_in) / 1000,
        queued=queued,
        leased=leased,
        delay=float(delay) / 1000,
        concurrency=concurrency,
        burst=burst,
        blocked_until=int(blocked) / 1000 if int(blocked) else None,
        paused=bool(paused),
        pages=pages,
        slowed_from=float(usual) / 1000 if usual else None,
        crawl_delay=int(asked) / 1000 if asked else None,
        answers=unpack_counts(answers),
        has_share=bool(has_share),
    )


class HostArguments(TypedDict, total=False):
    """The politeness of one host. *block_until* is a unix time; *crawl_delay* is that of robots.txt."""

    delay: float | None
    concurrency: int | None
    burst: int | None
    block_until: float | None
    paused: bool
    crawl_delay: float | None


def host_words(pace: HostArguments) -> list[str | int | float]:
    """Return delay, concurrency, burst, blocked until, paused and crawl delay as set_host.lua takes them."""
    unknown = set(pace) - set(HostArguments.__annotations__)
    if unknown:
        raise ConfigError(f"unknown host setting {', '.join(sorted(unknown))}")
    given = {
        name: value for name, value in pace.items() if name in ("delay", "concurrency", "burst") and value is not None
    }
    Politeness(**given)  # type: ignore[arg-type]  # refuses nonsense
    delay, asked, until = pace.get("delay"), pace.get("crawl_delay"), pace.get("block_until")
    if asked is not None and (not isinstance(asked, int | float) or not 0 <= asked <= MAX_DELAY):
        raise ConfigError(f"crawl_delay must be from 0 to {MAX_DELAY:.0f} seconds, got {asked!r}")
    if until is not None and not is_time(until):
        raise ConfigError(f"block_until must be a unix time in seconds, got {until!r}")
    return [
        _word(pace, "delay", None if delay is None else in_ms(delay)),
        _word(pace, "concurrency", pace.get("concurrency")),
        _word(pace, "burst", pace.get("burst")),
        _word(pace, "block_until", None if until is None else round(until * 1000)),
        _word(pace, "paused", 1 if pace.get("paused") else None),
        _word(pace, "crawl_delay", None if asked is None else round(asked * 1000)),
    ]


def in_ms(delay: float) -> int | float:
    """Return a delay in milliseconds, with thousandths only if it has some."""
    ms = round(float(delay) * 1000, 3)
    return int(ms) if ms.is_integer() else ms


def _word(pace: HostArguments, name: str, value: float | None) -> str | int | float:
    if name not in pace:
        return ""
    return "-" if value is None else value


def set_host(keys: ShardKeys, host: str, words: Sequence[str | int | float]) -> Command[str]:
    return Command(load("set_host"), (keys.ledger,), (host, *words), as_text)


class StatusCounts(msgspec.Struct, kw_only=True):
    """Recent HTTP statuses of a host. The order of the fields is stored."""

    status_2xx: int = 0
    status_3xx: int = 0
    status_4xx: int = 0
    status_5xx: int = 0
    failed: int = 0
    """Fetches without a status: no connection, a timeout, a truncated or too large response."""
    last: int | None = None
    """The last status; None if the last fetch had none."""
    updated: float = 0.0
    """When the counts were last updated: unix time of the server."""
    cpu: float = 0.0
    """CPU seconds that workers spent on these responses: decoding, parsing, and handlers."""

    @property
    def counts(self) -> list[int]:
        """The counts in the order of the fields."""
        return [self.status_2xx, self.status_3xx, self.status_4xx, self.status_5xx, self.failed]

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def trouble(self) -> float:
        """The share that failed: 4xx, 5xx, or no response."""
        return (self.status_4xx + self.status_5xx + self.failed) / self.total if self.total else 0.0

    @property
    def shares(self) -> list[tuple[str, float]]:
        """The share of each class that occurred, by its short name."""
        total = self.total
        return [(word, count / total) for word, count in zip(CLASSES.values(), self.counts, strict=True) if count]

    @property
    def mix(self) -> str:
        """The shares in words."""
        return _in_words(self.shares)

    @property
    def errors_first(self) -> str:
        """The shares in words: errors first, then the others, each with the largest share first."""
        errors = ("4xx", "5xx", "failed")
        return _in_words(sorted(self.shares, key=lambda one: (one[0] not in errors, -one[1])))

    @property
    def cpu_each(self) -> float:
        """CPU seconds per response, on average."""
        return self.cpu / self.total if self.total else 0.0

    @property
    def cost(self) -> str:
        """The CPU time in words, in total and per response; empty if unknown."""
        if not self.cpu:
            return ""
        each = f"{self.cpu_each * 1000:.2g} ms" if self.cpu_each < 0.1 else f"{self.cpu_each:.1f} s"
        return f"{self.cpu:.1f} s, {each} each"

    def add(self, later: StatusCounts) -> None:
        """Add later counts, as the script does."""
        both = [one + more for one, more in zip(self.counts, later.counts, strict=True)]
        for name, count in zip(CLASSES, halved_to_fit(both), strict=True):
            setattr(self, name, count)
        self.cpu = (_steps(self.cpu) + _steps(later.cpu)) // 2 ** halvings(both) * CPU_STEP
        self.last, self.updated = later.last, later.updated


CLASSES = {"status_2xx": "2xx", "status_3xx": "3xx", "status_4xx": "4xx", "status_5xx": "5xx", "failed": "failed"}


def halved_to_fit(counts: Iterable[int]) -> list[int]:
    """Halve the counts until their sum is at most `MOST_COUNTED`, so that recent counts weigh more."""
    left = list(counts)
    times = halvings(left)
    return [count >> times for count in left]


def halvings(counts: Iterable[int]) -> int:
    """Return how often the counts must be halved."""
    left, times = list(counts), 0
    while sum(count >> times for count in left) > MOST_COUNTED:
        times += 1
    return times


def _steps(seconds: float) -> int:
    return min(round(seconds / CPU_STEP), 2**31)


def _in_words(shares: Iterable[tuple[str, float]]) -> str:
    return " · ".join(f"{_percent(share)} {word}" for word, share in shares)


def _percent(share: float) -> str:
    """Format a share. 0 % and 100 % are printed only for exact values."""
    return "<1 %" if share < 0.01 else f"{100 if share == 1 else min(99, round(share * 100))} %"


def add_answers(layout: CrawlLayout, status_counts: Mapping[str, StatusCounts]) -> Flow[None]:
    """Send each shard the status counts of its hosts."""
    by_shard: dict[ShardKeys, list[Arg]] = {}
    for host, counts in status_counts.items():
        by_shard.setdefault(layout.shard_of(host), []).extend((host, pack_counts(counts)))
    most, size = -(-HOSTS_KEPT // layout.settings.shards), 2 * HOSTS_PER_CALL
    yield from ask_all(
        add_answers_command(keys, most, words[first : first + size])
        for keys, words in by_shard.items()
        for first in range(0, len(words), size)
    )


def add_answers_command(keys: ShardKeys, most: int, words: Sequence[Arg]) -> Command[int]:
    """Add status counts; returns how many hosts have some. A server that is out of memory does not store them."""
    return Command(load("add_answers"), (keys.ledger,), (most, *words), int, b"0")


def pack_counts(answers: StatusCounts) -> bytes:
    """Pack counts into the sixteen bytes that workers send. The last status of a failed fetch is 0."""
    cpu = _steps(answers.cpu) >> halvings(answers.counts)
    return _REPORTED.pack(*halved_to_fit(answers.counts), min(answers.last or 0, 0xFFFF), cpu)


def unpack_counts(kept: bytes) -> StatusCounts | None:
    """Read the stored twenty bytes, or sixteen of an earlier version without CPU time; None if there are fewer."""
    if len(kept) < _KEPT.size:
        return None
    *counts, last, updated = _KEPT.unpack(kept[: _KEPT.size])
    steps = _CPU.unpack(kept[_KEPT.size : _KEPT.size + _CPU.size])[0] if len(kept) >= _KEPT.size + _CPU.size else 0
    named = dict(zip(CLASSES, counts, strict=True))
    return StatusCounts(**named, last=last or None, updated=float(updated), cpu=round(steps * CPU_STEP, 4))
