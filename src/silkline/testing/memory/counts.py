"""Statistics of a crawl in memory."""

from __future__ import annotations

from collections import Counter

from silkline.frontier.admin_verbs.fsck import FsckReport
from silkline.frontier.admin_verbs.stats import (
    AN_HOUR,
    FIVE_MINUTES,
    LONG,
    RECENT_STEPS,
    Activity,
    Demand,
    Stats,
    WorkerCounts,
    active,
    ranked_priorities,
)
from silkline.frontier.overflow import OverflowCount
from silkline.frontier.store.record import expected_skips
from silkline.frontier.store.settings import OPEN_AGAIN
from silkline.frontier.transport.command import MAX_BATCH
from silkline.frontier.verbs.alerts import ALERTS, read_alerts
from silkline.frontier.verbs.history import COARSE, FINE, Counts
from silkline.frontier.verbs.hosts import HostState
from silkline.testing.memory.crawl import MemoryCrawl


def host_states(crawl: MemoryCrawl) -> list[HostState]:
    """Return hosts with queued requests, requests in progress or own rate limits, longest queues first."""
    known = [host for host in crawl.hosts.values() if host.queues or host.leased or host.is_paced(crawl.now)]
    states = [crawl.state_of(host) for host in known]
    return sorted(states, key=lambda state: (-state.queued, state.host))


def demand(crawl: MemoryCrawl) -> Demand:
    if crawl.state != "open":
        return Demand(0.0, 0, 0, len(crawl.leases))
    ready = [host for host in crawl.hosts.values() if host.turn is not None]
    due = [host for host in crawl.hosts.values() if host.opens is not None and host.opens <= crawl.now]
    times = [host.since for host in ready] + [host.opens for host in due if host.opens is not None]
    times += [held.until for held in crawl.delayed if held.until <= crawl.now]
    may_start = sum(min(max(0, host.may_start(crawl.now)), host.queued) for host in ready + due)
    oldest = max((crawl.now - time for time in times), default=0) / 1000
    return Demand(oldest, len(ready) + len(due), may_start, len(crawl.leases))


def checkup(crawl: MemoryCrawl) -> FsckReport:
    """Return a report without damage: data in memory cannot be damaged."""
    return FsckReport(
        crawl=crawl.layout.keys.crawl,
        hosts=sum(len(host.queues) for host in crawl.hosts.values()),
        leases=len(crawl.leases),
        letters=len(crawl.letters),
        queued=crawl.queued,
        seen=len(crawl.seen),
    )


def stats(crawl: MemoryCrawl, overflow: OverflowCount) -> Stats:
    settings = crawl.layout.settings
    kept = [one for one in crawl.results.values() if one.expires > crawl.now]
    closed_after = crawl.now + round(settings.politeness.delay * 1000) + LONG
    return Stats(
        crawl=crawl.layout.keys.crawl,
        state=crawl.state,
        shards=settings.shards,
        accepted=crawl.accepted,
        ready=crawl.queued,
        delayed=len(crawl.delayed),
        leased=len(crawl.leases),
        done=crawl.done,
        dead=len(crawl.letters),
        discarded=crawl.discarded,
        seen=len(crawl.seen),
        overflow=overflow.requests,
        overflow_refused=overflow.refused,
        rescued=crawl.rescued,
        late=crawl.late,
        duplicates=crawl.duplicates,
        turned_away=crawl.turned_away,
        over_share=crawl.over_share,
        dead_limit=settings.dead_limit,
        dead_dropped=crawl.dead_dropped,
        full=crawl.full and crawl.pending > settings.capacity * OPEN_AGAIN,
        capacity=settings.capacity,
        hosts_ready=sum(host.turn is not None for host in crawl.hosts.values()),
        hosts_waiting=sum(host.opens is not None for host in crawl.hosts.values()),
        expected_skips=expected_skips(settings.seen, len(crawl.seen)),
        held=sum(held.until > crawl.now for held in crawl.leases.values()),
        pages_spent=crawl.pages_spent,
        priorities=ranked_priorities(_by_priority(crawl)),
        results=len(kept),
        result_bytes=sum(one.size for one in crawl.results.values()) if kept else 0,
        hosts_closed=sum(host.opens is not None and host.opens > closed_after for host in crawl.hosts.values()),
    )


def _by_priority(crawl: MemoryCrawl) -> Counter[int]:
    counts: Counter[int] = Counter()
    for host in crawl.hosts.values():
        for priority, queue in host.queues.items():
            counts[priority] += len(queue)
    return counts


def activity(crawl: MemoryCrawl) -> Activity:
    now = crawl.time.server
    alive = [worker for worker in crawl.roster.workers(now, MAX_BATCH) if worker.alive]
    quiet = sum(worker.order != "work" for worker in alive)
    fine = crawl.history.read(now, FINE.step * (RECENT_STEPS + FIVE_MINUTES), None)
    coarse = crawl.history.last(now, COARSE, AN_HOUR + 1)
    workers = WorkerCounts(len(alive), quiet, crawl.roster.lost(now))
    found = active(workers, Counts().add(crawl.history.total), fine, coarse)
    return found._replace(alerts=read_alerts(crawl.feed_positions.get(ALERTS, (0, b""))[1]))
