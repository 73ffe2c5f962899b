"""Capacity: estimate the memory, nodes and workers that a crawl needs. Pure arithmetic with measured constants.

The constants are from `benchmarks.capacity` and `benchmarks.run` on Valkey 9.1 (a small machine with two cores); they
overestimate rather than underestimate.
"""

from __future__ import annotations

import math

import msgspec

from silkline.errors import ConfigError
from silkline.frontier.store import bloom
from silkline.frontier.store.record import expected_skips
from silkline.frontier.store.settings import BLOOM_MARGIN, MAX_SHARDS, SeenFilter
from silkline.frontier.transport.clients import CALL_CONNECTIONS
from silkline.frontier.verbs.hosts import HOSTS_KEPT

SEEN_BYTES = {"exact": 8.7, "compact": 6.0}
"""Per seen URL. A compact filter with fewer than a million URLs needs more, for its buckets."""
COMPACT_BASE = 300_000
QUEUED_BYTES = 3.2
"""Per queued request, in addition to its payload."""
LONG_QUEUE = 16_384
"""Size of a host queue above which the server compresses its middle."""
COMPRESSED = 0.62
"""Compressed size of a payload, as a fraction: measured with 1,000 URLs of a shop per host. It was 0.59 with 2,000 URLs per
host, 0.49 with 20,000, and 0.38 with 10,000 long file paths; the worst case counts."""
HOST_BYTES = 180
"""Per host with requests."""
ANSWERS_BYTES = 79
"""Per host with recorded responses; with a name of about 26 bytes."""
LEASE_BYTES, LETTER_BYTES = 180, 340
"""Per leased request and per dead letter, in addition to its payload."""
SERVER_BYTES = 2 * 2**20
"""Memory of an empty server."""
HEADROOM = 1.5
"""Memory to provide per byte used: for fragmentation, rewriting the append-only file, and clients."""

NODE_CYCLES = 27_000
"""Requests per second that clients can claim and complete on one node."""
NODE_LINKS = 75_000
"""Links per second that one node can check."""
WORKER_PAGES = 2_400
"""Pages per second that one worker process can handle if responses are immediate."""
MOST_WORKERS = 1000
"""Maximum number of workers in a plan."""
CLUSTER_SHARDS = 64
WORKER_CONNECTIONS = CALL_CONNECTIONS + 2
"""Connections of a worker to each node: those for calls, and one each for notifications and the heartbeat."""
FILTERS = ("exact", "compact", "bloom:0.0001", "bloom:1e-06")
"""The seen filters that a plan compares."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What to crawl, and how fast."""

    urls: int
    """URLs that the crawl will see: pages and links, each once."""
    hosts: int
    payload: float = 60.0
    """Bytes per stored request; for a plain GET, its path and query."""
    pending: int | None = None
    """Maximum number of requests queued at the same time. Default: all."""
    dead: int = 0
    delay: float = 1.0
    concurrency: int = 1
    target: float | None = None
    """Target time in seconds. Default: as fast as politeness allows."""
    latency: float = 0.5
    """Seconds until a page is downloaded."""
    links: float = 20.0
    """Links per page."""
    worker_concurrency: int = 64
    node_memory: int = 16 * 2**30
    seen: str = "exact"
    """The seen filter."""
    compressed: bool = False
    """Whether the server compresses long queues: list-compress-depth 1, as on the embedded server. The default of servers is 0."""

    def __post_init__(self) -> None:
        for name in ("urls", "hosts", "worker_concurrency", "concurrency", "node_memory", "payload", "latency"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name.replace('_', ' ')} must be more than 0, got {getattr(self, name)!r}")
        for name in ("delay", "links", "dead", "pending", "target"):
            if (value := getattr(self, name)) is not None and not value >= 0:
                raise ConfigError(f"{name} must be at least 0, got {value!r}")
        SeenFilter.parse(self.seen)
        if self.hosts > self.urls:
            raise ConfigError(f"there cannot be more hosts ({self.hosts:,}) than URLs ({self.urls:,})")


class FilterCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload needs with one seen filter."""

    memory: int
    """Maximum memory of the crawl in bytes."""
    seen_bytes: int
    """The part of the filter."""
    skipped: float
    """New URLs that are wrongly taken for seen, on average."""
    nodes: int


class CapacityPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a workload needs."""

    memory: dict[str, int]
    """Maximum memory in bytes, by seen filter."""
    filters: dict[str, FilterCost]
    """What each seen filter costs; the first one is that of the plan."""
    maxmemory: int
    """Recommended maxmemory with the filter of the plan, for all nodes together."""
    nodes: int
    shards: int
    pages_per_second: float
    """Average rate needed to meet the target time."""
    workers: int
    server_cores: float
    """Cores that are busy on all nodes together. A server runs scripts on one core."""
    worker_cores: float
    connections: int
    """Connections to each node."""
    politest: float
    """Minimum duration in seconds that politeness allows."""
    drain: float
    """Duration in seconds with these workers and nodes."""
    reachable: bool
    """Whether the target time can be met."""
    bound_by: str
    """What limits the duration: politeness or the target."""


def plan(workload: Workload) -> CapacityPlan:
    """Estimate what a workload needs, assuming that the URLs are spread evenly over the hosts."""
    politest = _politest(workload)
    fastest = max(politest, workload.urls / worker_rate(workload) / MOST_WORKERS)
    target = fastest if workload.target is None else workload.target
    drain = max(target, fastest, 1e-3)
    rate = workload.urls / drain
    filters = {name: _cost(workload, SeenFilter.parse(name), rate) for name in dict.fromkeys((workload.seen, *FILTERS))}
    memory, nodes = filters[workload.seen].memory, filters[workload.seen].nodes
    workers = max(1, math.ceil(rate / worker_rate(workload) - 1e-9))
    return CapacityPlan(
        memory={name: cost.memory for name, cost in filters.items()},
        filters=filters,
        maxmemory=math.ceil(memory * HEADROOM),
        nodes=nodes,
        shards=1 if nodes == 1 else min(MAX_SHARDS, max(CLUSTER_SHARDS, nodes * 8)),
        pages_per_second=rate,
        workers=workers,
        server_cores=rate / node_rate(workload.links),
        worker_cores=rate / WORKER_PAGES,
        connections=workers * WORKER_CONNECTIONS,
        politest=politest,
        drain=drain,
        reachable=workload.target is None or workload.target >= politest,
        bound_by="politeness" if drain <= politest else "the target",
    )


def _cost(workload: Workload, seen: SeenFilter, rate: float) -> FilterCost:
    """Return what a seen filter costs at this rate of pages."""
    memory = weigh(workload, seen)
    by_memory = math.ceil(memory * HEADROOM / workload.node_memory)
    return FilterCost(
        memory=memory,
        seen_bytes=round(seen_bytes(workload.urls, seen)),
        skipped=expected_skips(seen, workload.urls),
        nodes=max(by_memory, math.ceil(rate / node_rate(workload.links))),
    )


def weigh(workload: Workload, seen: SeenFilter, *, leased: int = 0, answered: int | None = None) -> int:
    """Return the memory of the crawl in bytes, with its longest queue. *answered* is the number of hosts with recorded responses; default: all."""
    pending = workload.urls if workload.pending is None else workload.pending
    each = workload.payload + QUEUED_BYTES
    if workload.compressed and pending / workload.hosts * each > LONG_QUEUE:
        each = workload.payload * COMPRESSED + QUEUED_BYTES
    letters = workload.dead * (LETTER_BYTES + workload.payload)
    leases = leased * (LEASE_BYTES + workload.payload)
    hosts = min(workload.hosts, pending) * HOST_BYTES
    answers = min(workload.hosts if answered is None else answered, HOSTS_KEPT) * ANSWERS_BYTES
    return round(seen_bytes(workload.urls, seen) + pending * each + hosts + letters + leases + answers)


def seen_bytes(urls: int, seen: SeenFilter) -> float:
    if seen.kind == "bloom":
        return bloom.size_for(urls, math.ceil((seen.capacity or urls) * BLOOM_MARGIN), seen.error)
    return urls * SEEN_BYTES[seen.kind] + (COMPACT_BASE if seen.kind == "compact" else 0)


def _politest(workload: Workload) -> float:
    """Return the seconds that one host needs for its share of the URLs, within its delay and concurrency."""
    each = math.ceil(workload.urls / workload.hosts)
    return max((each - 1) * workload.delay, each * workload.latency / workload.concurrency)


def worker_rate(workload: Workload) -> float:
    """Return the pages per second of one worker process."""
    return min(WORKER_PAGES, workload.worker_concurrency / workload.latency)


def node_rate(links: float) -> float:
    """Return the pages per second that one node can serve, including their links."""
    return 1 / (1 / NODE_CYCLES + links / NODE_LINKS)
