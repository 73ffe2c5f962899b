"""A crawl in numbers: its counts, whether it is finished, and how much work it offers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from silkline.frontier.admin_verbs.audit import AuditEntry, read_audit, who_paused
from silkline.frontier.admin_verbs.dead_letters import DeadFilter, DeadLetter, dead, reason_group
from silkline.frontier.store.keys import CrawlKeys, ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.store.record import expected_skips
from silkline.frontier.store.settings import OPEN_AGAIN
from silkline.frontier.transport.command import Command, Flow, ask, ask_all, load
from silkline.frontier.verbs.alerts import AlertState, read_alerts
from silkline.frontier.verbs.enqueue import note_overflow
from silkline.frontier.verbs.history import (
    COARSE,
    COUNTS,
    FINE,
    LEVELS,
    Counts,
    HistoryRing,
    Levels,
    Point,
    read_point,
    total_of,
)
from silkline.frontier.verbs.lifecycle import refresh

STATES = ("ready", "delayed", "leased", "done", "dead", "discarded")
"""The states of an accepted request; fields of `Stats`."""
LOOKED_AT = 200
"""Hosts of a shard that are examined. If there are more, the result is an estimate."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a crawl. accepted = ready + delayed + leased + done + dead + discarded, always."""

    crawl: str
    state: str
    shards: int
    accepted: int
    ready: int
    delayed: int
    leased: int
    done: int
    dead: int
    discarded: int
    seen: int
    overflow: int
    rescued: int
    late: int = 0
    """Verdicts that were refused, because another worker held the request by then."""
    duplicates: int = 0
    """Offers that the seen filter recognized."""
    turned_away: int = 0
    """Offers that did not fit."""
    over_share: int = 0
    """The part of `turned_away` whose host had reached its share of the capacity."""
    overflow_refused: int = 0
    """Links that were dropped, because an overflow file had too many requests of their host."""
    dead_limit: int = 0
    """How many dead letters the crawl keeps; 0 for all."""
    dead_dropped: int = 0
    """The part of `discarded` that were dead letters beyond this limit."""
    full: bool
    capacity: int
    hosts_ready: int
    hosts_waiting: int
    expected_skips: float
    """Expected number of URLs that the seen filter has wrongly taken for seen."""
    losses: int = 0
    """How often the server has lost writes, after a failover or restart."""
    lost_at: float | None = None
    """Unix time at which the last loss was noticed."""
    held: int = 0
    """The part of `leased` whose leases have not expired."""
    pages_spent: bool = False
    """Whether as many pages are done as the budget allows."""
    hosts_closed: int = 0
    """The part of `hosts_waiting` that opens in more than a minute plus the crawl's delay: blocked, slowed down, or with a long delay."""

    priorities: dict[int, int] = {}
    """The part of `ready` by priority, the highest first. An estimate if more than 200 hosts of a shard have priorities other than 0."""
    results: int = 0
    """Results of completed requests that are kept."""
    result_bytes: int = 0
    """Their memory, about."""

    @property
    def pending(self) -> int:
        return self.ready + self.delayed

    @property
    def conserved(self) -> bool:
        """Whether the counts add up. Meaningful only if no request moves between the reads of two shards."""
        return self.accepted == self.pending + self.leased + self.done + self.dead + self.discarded


def stats(layout: CrawlLayout) -> Flow[Stats]:
    shards = yield from ask_all(snapshot(keys, LOOKED_AT) for keys in layout.shards)
    overflow = yield from ask(note_overflow(layout.keys))
    settings = layout.settings
    seen = _total(shards, "seen_count")
    return Stats(
        crawl=layout.keys.crawl,
        state=shards[0]["state"],
        shards=settings.shards,
        accepted=_total(shards, "accepted"),
        ready=_total(shards, "queued"),
        delayed=_total(shards, "delayed"),
        leased=_total(shards, "leased"),
        done=_total(shards, "done"),
        dead=_total(shards, "dead"),
        discarded=_total(shards, "discarded"),
        seen=seen,
        overflow=overflow.requests,
        overflow_refused=overflow.refused,
        rescued=_total(shards, "rescued"),
        late=_total(shards, "late"),
        duplicates=_total(shards, "duplicates"),
        turned_away=_total(shards, "turned_away"),
        over_share=_total(shards, "over_share"),
        dead_limit=settings.dead_limit,
        dead_dropped=_total(shards, "dead_dropped"),
        full=any(_is_full(shard) for shard in shards),
        capacity=settings.capacity,
        hosts_ready=_total(shards, "hosts_ready"),
        hosts_waiting=_total(shards, "hosts_waiting"),
        expected_skips=expected_skips(settings.seen, seen),
        losses=max(int(shard["losses"]) for shard in shards),
        lost_at=max(int(shard["lost_at"]) for shard in shards) / 1000 or None,
        held=_total(shards, "held"),
        pages_spent=_pages_spent(layout, shards),
        hosts_closed=_total(shards, "hosts_closed"),
        priorities=_by_priority(shards),
        results=_total(shards, "results"),
        result_bytes=_total(shards, "result_bytes"),
    )


def _by_priority(shards: Sequence[dict[str, str]]) -> dict[int, int]:
    counts: Counter[int] = Counter()
    for shard in shards:
        pairs = (line.split() for line in shard["priorities"].splitlines())
        lanes = {int(priority): int(count) for priority, count in pairs}
        counts.update(lanes)
        counts[0] += max(0, int(shard["queued"]) - sum(lanes.values()))
    return ranked_priorities(counts)


def ranked_priorities(counts: Mapping[int, int]) -> dict[int, int]:
    """Return the counts that are not 0, the highest priority first."""
    return {priority: counts[priority] for priority in sorted(counts, reverse=True) if counts[priority]}


def levels_of(stats: Stats, server_memory: int = 0) -> Levels:
    """Return what the history keeps of the counts, and of the memory of the server."""
    return Levels(
        **{name: getattr(stats, name) for name in LEVELS if name != "server_memory"}, server_memory=server_memory
    )


def _is_full(shard: dict[str, str]) -> bool:
    """Return whether a shard is full. Its scripts clear the flag only at the next enqueue."""
    pending = int(shard["queued"]) + int(shard["delayed"])
    return shard["full"] == "1" and pending > int(shard["capacity"]) * OPEN_AGAIN


def _snapshots(layout: CrawlLayout) -> Flow[list[dict[str, str]]]:
    return (yield from ask_all(snapshot(keys) for keys in layout.shards))


def _total(shards: Sequence[dict[str, str]], name: str) -> int:
    return sum(int(shard[name]) for shard in shards)


def finished(layout: CrawlLayout) -> Flow[bool]:
    """Return whether nothing is left to do on any shard, and nothing moved between two reads.

    A link to another shard is stored before its page completes. So one read is not enough: it may see the link's shard before the
    link, and the page's shard after the page. Two reads with equal counts of moves are.
    """
    first = yield from _snapshots(layout)
    if _total(first, "leased"):
        return False
    layout = yield from refresh(layout)  # the budget may have been changed
    if not _nothing_left(layout, first):
        return False
    overflow = yield from ask(note_overflow(layout.keys))
    if overflow.requests and not _pages_spent(layout, first):
        return False
    second = yield from _snapshots(layout)
    same = all(one["moves"] == two["moves"] for one, two in zip(first, second, strict=True))
    return same and _nothing_left(layout, second)


def _nothing_left(layout: CrawlLayout, shards: Sequence[dict[str, str]]) -> bool:
    if _total(shards, "leased"):
        return False
    return _total(shards, "queued") + _total(shards, "delayed") == 0 or _pages_spent(layout, shards)


def _pages_spent(layout: CrawlLayout, shards: Sequence[dict[str, str]]) -> bool:
    budget = layout.settings.budget.pages
    return budget is not None and _total(shards, "done") >= budget


def snapshot(keys: ShardKeys, hosts: int = 0) -> Command[dict[str, str]]:
    """Read the counters of a shard, and the number of ready requests by priority: of at most *hosts* hosts, from which it is estimated."""

    def decode(reply: list[bytes]) -> dict[str, str]:
        return {reply[i].decode(): reply[i + 1].decode() for i in range(0, len(reply), 2)}

    return Command(load("snapshot"), (keys.ledger,), (hosts,), decode)


class Demand(NamedTuple):
    """How much work can be in progress."""

    oldest: float
    """Seconds for which the host that waits longest could have been claimed, to a second or one percent."""
    open_hosts: int
    """Hosts with a request that can be claimed now."""
    may_start: int
    """Requests that can be claimed now, given the politeness of their hosts; an estimate if there are many hosts."""
    leased: int

    @property
    def useful(self) -> int:
        """Pages that can be in progress now. More workers than these keep busy are idle."""
        return self.may_start + self.leased


class ShardDemand(NamedTuple):
    """Demand of one shard: of its open hosts, *looked_at* were examined, and those may start *may_start* requests."""

    oldest: float
    open_hosts: int
    looked_at: int
    may_start: int

    @property
    def estimate(self) -> float:
        return self.may_start * self.open_hosts / self.looked_at if self.looked_at else 0.0


def shard_demand(keys: ShardKeys) -> Command[ShardDemand]:
    def decode(reply: list[Any]) -> ShardDemand:
        return ShardDemand(int(reply[0]) / 1000, *map(int, reply[1:]))

    return Command(load("demand"), (keys.ledger,), (LOOKED_AT,), decode)


def demand(layout: CrawlLayout) -> Flow[Demand]:
    shards = yield from ask_all(shard_demand(keys) for keys in layout.shards)
    snapshots = yield from ask_all(snapshot(keys) for keys in layout.shards)
    return Demand(
        oldest=max(shard.oldest for shard in shards),
        open_hosts=sum(shard.open_hosts for shard in shards),
        may_start=round(sum(shard.estimate for shard in shards)),
        leased=sum(int(snapshot["leased"]) for snapshot in snapshots),
    )


StatusWord = Literal["running", "full", "draining", "idle", "finished", "empty", "paused", "cancelled"]
RECENT_STEPS = 6
"""Complete steps of the fine history, a minute, over which the rate is measured."""
FIVE_MINUTES = 30
"""Complete steps of the fine history, five minutes."""
HALF_AN_HOUR, AN_HOUR = 6, 12
"""Complete steps of the coarse history."""
AUDITED = 100
"""Audit entries among which the one that paused the crawl is searched."""
LONG = 60_000
"""Milliseconds beyond the delay of the crawl after which a host counts as closed; snapshot.lua has the same."""


class EarlierLevels(NamedTuple):
    """The levels of a crawl some time ago, to see how it grows."""

    time: float
    levels: Levels


class Activity(NamedTuple):
    """Who works on a crawl, and what was done recently."""

    workers: int
    """Live workers."""
    quiet: int
    """Those of them that an operator has ordered to be quiet or to stop."""
    items: int
    """Items since the crawl began, as workers and spiders of Silkline report them."""
    pages_per_second: float
    """Over the last minute, or the part of it in which workers reported."""
    lost: int
    """Workers that were lost in the last hour."""
    five_minutes: Counts
    """What was done in the last five minutes."""
    hour: Counts
    """What was done in the last hour."""
    had_work: bool
    """Whether requests were ready or leased five minutes ago, as a worker reported."""
    time: float
    """Unix time of the server, to ten seconds."""
    total: Counts = Counts()
    """What was done since the crawl began."""
    earlier: EarlierLevels | None = None
    """The oldest levels that a worker reported in the last half hour."""
    alerts: tuple[AlertState, ...] = ()
    """Its alerts, as a worker has evaluated them last."""

    @property
    def firing(self) -> list[AlertState]:
        """The alerts that fire: with any, the crawl is unhealthy."""
        return [alert for alert in self.alerts if alert.firing]


class CrawlStatus(NamedTuple):
    """What a person wants to know of a crawl first: its counts, who works on it, and one word for its state."""

    stats: Stats
    activity: Activity
    paused_by: AuditEntry | None = None
    """The audit entry of the operator or worker who paused the crawl, if it is paused."""
    cause: str = ""
    """The group of most of the newest dead letters, if most attempts of the last five minutes failed (see `mostly_failed`)."""

    @property
    def word(self) -> StatusWord:
        """running, or why it is not.

        ``cancelled`` and ``paused`` are what an operator did; a paused crawl is ``draining`` while pages are in progress, and so is
        one whose workers are all quiet. ``finished``: nothing is left, or the budget is spent; ``empty``: it never had a request.
        ``idle``: requests wait, and no worker claims them. ``full``: it is running, at its capacity.
        """
        stats = self.stats
        if stats.state == "cancelled":
            return "cancelled"
        if stats.state == "paused":
            return "draining" if stats.held else "paused"
        if not stats.leased and (stats.pages_spent or not self.waiting):
            return "finished" if stats.accepted else "empty"
        if not self._is_claimed:
            return "draining" if stats.held and self.activity.workers else "running" if stats.held else "idle"
        return "full" if stats.full else "running"

    @property
    def waiting(self) -> int:
        """Requests that wait for a worker, also those of lost workers and those in overflow files."""
        return self.stats.pending + self.stats.leased - self.stats.held + self.stats.overflow

    @property
    def advice(self) -> str:
        """What to do about an idle crawl; else empty."""
        if self.word != "idle":
            return ""
        wait = "1 request waits" if self.waiting == 1 else f"{self.waiting:,} requests wait"
        if not self.activity.workers:
            return f"{wait} and no worker is running: start one with silkline worker FILE"
        all_quiet = "the only worker is" if self.activity.workers == 1 else f"all {self.activity.workers:,} workers are"
        return f"{wait} and {all_quiet} quiet: let them work with silkline workers resume {self.stats.crawl} all"

    @property
    def _is_claimed(self) -> bool:
        """Whether a live worker claims requests."""
        return self.activity.workers > self.activity.quiet


def status(layout: CrawlLayout) -> Flow[CrawlStatus]:
    """Return the status of a crawl. The cost does not depend on its size."""
    counted = yield from stats(layout)
    active = yield from ask(activity(layout.keys))
    if counted.state == "paused":
        entries = yield from ask(read_audit(layout.keys.audit, AUDITED))
        return CrawlStatus(counted, active, who_paused(entries))
    cause = ""
    if counted.dead and mostly_failed(active.five_minutes):
        cause = cause_of(active, (yield from dead(layout, DeadFilter(), NEWEST_DEAD, NEWEST_DEAD)))
    return CrawlStatus(counted, active, cause=cause)


LEAST_ATTEMPTS = 10
"""Attempts in five minutes from which on their failures are judged."""
MANY_FAILURES = 0.5
NEWEST_DEAD = 20
"""Dead letters that are read to find the cause of failures."""


def mostly_failed(lately: Counts) -> bool:
    """Return whether more than half of at least ten attempts failed."""
    attempts = lately.pages + lately.errors
    return attempts >= LEAST_ATTEMPTS and lately.errors > MANY_FAILURES * attempts


def cause_of(active: Activity, newest: Sequence[DeadLetter]) -> str:
    """Return the group of most of the *newest* dead letters that were buried in the last five minutes; else an empty string."""
    since = active.time - FIVE_MINUTES * FINE.step
    groups = Counter(reason_group(letter.reason, letter.host) for letter in newest if letter.last > since)
    [(group, letters)] = groups.most_common(1) or [("", 0)]
    return group if 2 * letters > groups.total() else ""


def activity(keys: CrawlKeys) -> Command[Activity]:
    fine_steps, coarse_steps = RECENT_STEPS + FIVE_MINUTES + 1, AN_HOUR + 1

    def decode(reply: list[Any]) -> Activity:
        workers, quiet, lost, total, last, *texts, alerts = reply
        fine = _points(FINE, int(last), texts[:fine_steps])
        coarse = _points(COARSE, int(last) * FINE.step // COARSE.step, texts[fine_steps:])
        counts = Counts(**dict(zip(COUNTS, map(int, total.split()), strict=False)))
        return active(WorkerCounts(workers, quiet, lost), counts, fine, coarse)._replace(alerts=read_alerts(alerts))

    return Command(load("activity"), (keys.settings,), (fine_steps, coarse_steps), decode)


def _points(ring: HistoryRing, last: int, texts: Sequence[bytes]) -> list[Point]:
    """Read stored steps, of which the newest has the number *last*."""
    return [read_point(ring, last - len(texts) + 1 + place, text) for place, text in enumerate(texts)]


class WorkerCounts(NamedTuple):
    """The workers of a crawl, counted: those that are alive, the quiet part of them, and those lost in the last hour."""

    alive: int
    quiet: int
    lost: int


def active(workers: WorkerCounts, total: Counts, fine: Sequence[Point], coarse: Sequence[Point]) -> Activity:
    """Return the activity, given the last steps of the history, each with the current one at its end."""
    before, five_minutes = fine[: -FIVE_MINUTES - 1], fine[-FIVE_MINUTES - 1 :]
    return Activity(
        workers.alive,
        workers.quiet,
        total.items,
        recent_rate(fine[-RECENT_STEPS - 1 :]),
        workers.lost,
        total_of(five_minutes),
        total_of(coarse),
        any(point.levels and point.levels.ready + point.levels.leased for point in before),
        fine[-1].time,
        total,
        _earlier([*coarse[-HALF_AN_HOUR - 1 : -1], *fine[:-1]]),
    )


def _earlier(points: Sequence[Point]) -> EarlierLevels | None:
    """Return the levels of the first of these complete steps that has some: those at its end."""
    return next((EarlierLevels(point.time + point.step, point.levels) for point in points if point.levels), None)


def recent_rate(points: Sequence[Point]) -> float:
    """Return the pages per second, without the newest step, which is in progress, and the steps before the first report."""
    complete = list(points[:-1])
    while complete and not (complete[0].levels or complete[0].pages):
        complete.pop(0)
    seconds = sum(point.step for point in complete)
    return sum(point.pages for point in complete) / seconds if seconds else 0.0
