"""Capacity: what a crawl needs of Redis and of workers. Pure arithmetic over constants that were measured.

The constants are from `benchmarks.capacity` and `benchmarks.run` on Valkey 9.1 (two cores of a small machine); they err on
the side of too much.
"""

from __future__ import annotations

import math

import msgspec

from silkline.core.errors import ConfigError
from silkline.frontier.history import HOSTS_KEPT
from silkline.frontier.settings import SeenFilter

SEEN_BYTES = {"exact": 8.7, "compact": 6.0}
"""Per URL that was seen; of a compact filter with fewer than a million URLs its buckets weigh more."""
COMPACT_BASE = 300_000
QUEUED_BYTES = 3.2
"""Per request that waits, beside its payload."""
LONG_QUEUE = 16_384
"""Bytes of one host's queue from which on the server compresses what is in its middle."""
COMPRESSED = 0.62
"""What is left of a payload then, if the server compresses at all: measured with 1,000 URLs of a shop on each host. Of 2,000 a host
0.59 was left, of 20,000 0.49, and of 10,000 long paths of files 0.38: the least that is saved counts."""
HOST_BYTES = 180
"""Per host with requests."""
ANSWERS_BYTES = 75
"""Per host that has answered, of as many as are kept; with a name of some 26 bytes."""
LEASE_BYTES, LETTER_BYTES = 180, 340
"""Per request that is leased or dead, beside its payload."""
SERVER_BYTES = 2 * 2**20
"""An empty server."""
HEADROOM = 1.5
"""Memory to give per byte used: fragmentation, rewriting the append-only file, clients."""

NODE_CYCLES = 27_000
"""Requests that one node hands out and completes in a second."""
NODE_LINKS = 75_000
"""Links that one node checks in a second."""
WORKER_PAGES = 2_400
"""Pages that one worker process can handle in a second if they come at once."""
MOST_WORKERS = 1000
"""A crawl without politeness is not planned with more."""
CLUSTER_SHARDS = 64


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be crawled, and how fast."""

    urls: int
    hosts: int
    payload: float = 60.0
    """Bytes of a stored request: of a plain GET its path and query."""
    pending: int | None = None
    """How many wait at once at most; all of them unless told."""
    dead: int = 0
    delay: float = 1.0
    concurrency: int = 1
    target: float | None = None
    """Seconds in which it is to be done; as fast as politeness allows unless told."""
    latency: float = 0.5
    """Seconds that a page takes to come."""
    links: float = 20.0
    """Links on a page."""
    worker_concurrency: int = 64
    node_memory: int = 16 * 2**30
    compressed: bool = False
    """Whether the server compresses long queues: list-compress-depth 1, as the embedded server has it. A server's default is 0."""

    def __post_init__(self) -> None:
        for name in ("urls", "hosts", "worker_concurrency", "concurrency", "node_memory", "payload", "latency"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name.replace('_', ' ')} must be more than 0, got {getattr(self, name)!r}")
        for name in ("delay", "links", "dead", "pending", "target"):
            if (value := getattr(self, name)) is not None and not value >= 0:
                raise ConfigError(f"{name} must be at least 0, got {value!r}")
        if self.hosts > self.urls:
            raise ConfigError(f"there cannot be more hosts ({self.hosts:,}) than URLs ({self.urls:,})")


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What that takes."""

    memory: dict[str, int]
    """Bytes in use at most, by seen filter."""
    maxmemory: int
    """What to give the server with an exact filter."""
    nodes: int
    shards: int
    pages_per_second: float
    """On average, to be done in time."""
    workers: int
    politest: float
    """Seconds that it takes at least, because of politeness."""
    drain: float
    """Seconds that it takes with so many workers and nodes."""
    reachable: bool
    """Whether the target can be met."""
    bound_by: str
    """What limits it: politeness, or the target."""


def plan(wish: Wish) -> Need:
    """What the crawl of a wish needs, if its URLs are spread evenly over its hosts."""
    politest = _politest(wish)
    fastest = max(politest, wish.urls / worker_rate(wish) / MOST_WORKERS)
    target = fastest if wish.target is None else wish.target
    drain = max(target, fastest, 1e-3)
    rate = wish.urls / drain
    memory = {name: weigh(wish, SeenFilter.parse(name)) for name in ("exact", "compact", "bloom:0.0001")}
    nodes = max(math.ceil(memory["exact"] * HEADROOM / wish.node_memory), math.ceil(rate / node_rate(wish.links)))
    return Need(
        memory=memory,
        maxmemory=math.ceil(memory["exact"] * HEADROOM),
        nodes=nodes,
        shards=1 if nodes == 1 else max(CLUSTER_SHARDS, nodes * 8),
        pages_per_second=rate,
        workers=max(1, math.ceil(rate / worker_rate(wish) - 1e-9)),
        politest=politest,
        drain=drain,
        reachable=wish.target is None or wish.target >= politest,
        bound_by="politeness" if drain <= politest else "the target",
    )


def weigh(wish: Wish, seen: SeenFilter, *, leased: int = 0, answered: int | None = None) -> int:
    """Bytes that the crawl takes, when as many wait as ever. Of *answered* hosts the answers are kept: all unless told."""
    pending = wish.urls if wish.pending is None else wish.pending
    each = wish.payload + QUEUED_BYTES
    if wish.compressed and pending / wish.hosts * each > LONG_QUEUE:
        each = wish.payload * COMPRESSED + QUEUED_BYTES
    letters = wish.dead * (LETTER_BYTES + wish.payload)
    leases = leased * (LEASE_BYTES + wish.payload)
    hosts = min(wish.hosts, pending) * HOST_BYTES
    answers = min(wish.hosts if answered is None else answered, HOSTS_KEPT) * ANSWERS_BYTES
    return round(seen_bytes(wish.urls, seen) + pending * each + hosts + letters + leases + answers)


def seen_bytes(urls: int, seen: SeenFilter) -> float:
    if seen.kind == "bloom":
        return _bloom_bytes(urls, seen)
    return urls * SEEN_BYTES[seen.kind] + (COMPACT_BASE if seen.kind == "compact" else 0)


def _bloom_bytes(urls: int, seen: SeenFilter) -> float:
    """Its layers, each made in its full size: twice the capacity and half the error of the one before (bloom.lua)."""
    total, layer, room = 0.0, 0, 0
    while room < urls or layer == 0:
        capacity = seen.capacity * 2**layer
        total += capacity * math.log2(2 ** (layer + 1) / seen.error) / math.log(2) / 8
        room += capacity
        layer += 1
    return total


def _politest(wish: Wish) -> float:
    """Every host serves its share one after the other, or as many at a time as it may."""
    each = math.ceil(wish.urls / wish.hosts)
    return max((each - 1) * wish.delay, each * wish.latency / wish.concurrency)


def worker_rate(wish: Wish) -> float:
    """Pages a second of one worker process."""
    return min(WORKER_PAGES, wish.worker_concurrency / wish.latency)


def node_rate(links: float) -> float:
    """Pages a second that one node can serve, their links included."""
    return 1 / (1 / NODE_CYCLES + links / NODE_LINKS)
