"""The metrics of a crawl: as the server knows them, so they are the same whoever is asked."""

from __future__ import annotations

from collections.abc import Sequence

from silkline.frontier.demand import Demand
from silkline.frontier.frontier import Frontier
from silkline.frontier.host_state import HostState
from silkline.frontier.inspection import STATES, Stats
from silkline.frontier.roster import WorkerState
from silkline.frontier.server import Memory
from silkline.metrics.text import Family, Sample, counter, gauge

TOP_HOSTS = 10
"""Hosts that get values of their own: a metric for each of a hundred thousand would burden whoever stores them."""
HOSTS_LOOKED_AT = 200
"""Among so many the ten with the longest queues are sought."""


async def crawl_families(frontier: Frontier) -> list[Family]:
    """Ask the server, and put it into families."""
    stats, demand, memory = await frontier.stats(), await frontier.demand(), await frontier.memory()
    hosts, workers = await frontier.hosts(limit=HOSTS_LOOKED_AT), await frontier.workers(limit=1000)
    return [
        *of_stats(stats),
        *of_demand(stats.crawl, demand),
        *of_hosts(stats.crawl, hosts),
        *of_memory(memory),
        of_workers(stats.crawl, workers),
    ]


def of_stats(stats: Stats) -> list[Family]:
    crawl = stats.crawl
    by_state = [Sample(getattr(stats, state), {"crawl": crawl, "state": state}) for state in STATES]
    places = (("ready", stats.hosts_ready), ("waiting", stats.hosts_waiting))
    hosts = [Sample(count, {"crawl": crawl, "place": place}) for place, count in places]
    return [
        Family("silkline_requests", "gauge", "Requests by state.", by_state),
        Family("silkline_hosts", "gauge", "Hosts that have requests and may be claimed now, or later.", hosts),
        gauge("silkline_open", "1 unless the crawl is paused or cancelled.", stats.state == "open", crawl=crawl),
        gauge("silkline_full", "Whether some shard of the crawl is full.", stats.full, crawl=crawl),
        gauge("silkline_capacity", "Requests that may wait.", stats.capacity, crawl=crawl),
        gauge("silkline_overflow_requests", "Links that wait on disks.", stats.overflow, crawl=crawl),
        gauge("silkline_seen", "Fingerprints in the seen filter.", stats.seen, crawl=crawl),
        counter("silkline_accepted_total", "Requests taken in.", stats.accepted, crawl=crawl),
        counter("silkline_duplicates_total", "Offers that the seen filter knew.", stats.duplicates, crawl=crawl),
        counter("silkline_turned_away_total", "Offers that found no room.", stats.turned_away, crawl=crawl),
        counter("silkline_leases_expired_total", "Leases that their workers let expire.", stats.rescued, crawl=crawl),
        counter("silkline_late_tokens_total", "Endings refused: the lease was over.", stats.late, crawl=crawl),
    ]


def of_demand(crawl: str, demand: Demand) -> list[Family]:
    return [
        gauge(
            "silkline_oldest_eligible_seconds",
            "For how long the host that waits longest could have been claimed.",
            demand.oldest,
            crawl=crawl,
        ),
        gauge("silkline_useful_concurrency", "Pages that could be under way now.", demand.useful, crawl=crawl),
    ]


def of_hosts(crawl: str, hosts: Sequence[HostState]) -> list[Family]:
    top = sorted(hosts, key=lambda host: (-host.queued, host.host))[:TOP_HOSTS]

    def samples(name: str) -> list[Sample]:
        return [Sample(getattr(host, name), {"crawl": crawl, "host": host.host}) for host in top]

    return [
        Family(
            "silkline_host_backlog", "gauge", "Requests that wait for a host; of some hosts only.", samples("queued")
        ),
        Family("silkline_host_leased", "gauge", "Requests under way on these hosts.", samples("leased")),
        Family("silkline_host_delay_seconds", "gauge", "Delay of these hosts, as it is now.", samples("delay")),
    ]


def of_memory(memory: Memory) -> list[Family]:
    families = [gauge("silkline_redis_memory_bytes", "Memory in use on the server.", memory.used)]
    if memory.limit is not None and memory.headroom is not None:
        families += [
            gauge("silkline_redis_memory_limit_bytes", "Memory that the server may use.", memory.limit),
            gauge("silkline_redis_headroom_bytes", "Memory left to the server.", memory.headroom),
        ]
    return families


def of_workers(crawl: str, workers: Sequence[WorkerState]) -> Family:
    alive = [worker for worker in workers if worker.alive]
    counts = {state: sum(worker.info.get("state") == state for worker in alive) for state in ("quiet", "stopping")}
    counts = {"working": len(alive) - sum(counts.values()), **counts}  # who says nothing else is there to work
    samples = [Sample(count, {"crawl": crawl, "state": state}) for state, count in counts.items()]
    samples.append(Sample(len(workers) - len(alive), {"crawl": crawl, "state": "lost"}))
    return Family("silkline_workers", "gauge", "Workers of the crawl; lost ones fell silent in the last hour.", samples)
