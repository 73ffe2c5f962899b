"""Claims: bytes per URL of the seen filters as they grow and of a whole crawl, compared with scrapy-redis and RQ."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from benchmarks.lab import Claim, Entrant, Lab, Section, progress
from benchmarks.urls import product_urls
from silkline import Politeness, SyncFrontier

METHOD = (
    "Differences of the server's used_memory without client buffers, after a small run of all commands (a server keeps a "
    "24 KiB latency histogram of every command that it has run). Seen filters: one crawl grows, and before each reading "
    "everything but the filter is deleted; 8 readings per tenfold growth, the worst counts. Whole crawl: seen + pending + "
    "hosts, nothing is deleted."
)
BATCH = 1_000
CAPACITY = 50_000_000
FEW_HOSTS = 100
READINGS_PER_DECADE = 8


def open_crawl(lab: Lab, crawl: str, seen: str) -> SyncFrontier:
    """Open a crawl that is never full."""
    return SyncFrontier.open(
        lab.url, crawl=crawl, seen=seen, capacity=CAPACITY, politeness=Politeness(delay=0, concurrency=8)
    )


def fill(frontier: SyncFrontier, urls: Iterator[str], count: int) -> None:
    """Enqueue the next *count* of *urls*."""
    while count > 0:
        part = list(islice(urls, min(BATCH, count)))
        frontier.enqueue(part)
        count -= len(part)


def rehearse(lab: Lab, seen: str) -> int:
    """Run the same commands on a small scale, delete the data, and return the memory used: the baseline."""
    lab.redis.flushall()
    with open_crawl(lab, "rehearsal", seen) as frontier:
        fill(frontier, product_urls(FEW_HOSTS), 10 * BATCH)
    leave_only_filter(lab)
    lab.settled_memory()
    lab.redis.flushall()
    return lab.settled_memory()


def sizes(smallest: int, largest: int) -> list[int]:
    """Return sizes from *smallest* to *largest* in equal ratios."""
    size, found = float(smallest), []
    while size < largest * 0.999:
        found.append(round(size))
        size *= 10 ** (1 / READINGS_PER_DECADE)
    return [*found, largest]


def leave_only_filter(lab: Lab) -> None:
    """Delete every key that is not the seen filter, the ledger or the crawl's settings."""
    kept = (b":seen:", b":bloom:", b":ledger", b":crawl")
    doomed = [key for key in lab.redis.scan_iter(count=10_000) if not any(part in key for part in kept)]
    for first in range(0, len(doomed), BATCH):
        lab.redis.delete(*doomed[first : first + BATCH])


def grow_filter(lab: Lab, section: Section, seen: str, largest: int) -> dict[int, float]:
    """Measure the bytes per URL of one filter at each size up to *largest*."""
    figure = section.figure(f"seen filter {seen}, 10,000 … {largest:,} URLs", "bytes per URL")
    baseline = rehearse(lab, seen)
    found: dict[int, float] = {}
    urls, enqueued = product_urls(FEW_HOSTS), 0
    for size in sizes(10_000, largest):
        progress(f"{seen}: growing to {size:,}")
        with open_crawl(lab, "growing", seen) as frontier:
            fill(frontier, urls, size - enqueued)
        enqueued = size
        leave_only_filter(lab)
        found[size] = (lab.settled_memory() - baseline) / size
        figure.rounds.append(found[size])
    figure.sizes = list(found)
    return found


def weigh_crawl(lab: Lab, section: Section, count: int, hosts: int) -> float:
    """Measure the bytes per URL of a whole crawl."""
    progress(f"weighing {count:,} URLs on {hosts:,} hosts")
    baseline = rehearse(lab, "exact")
    with open_crawl(lab, "whole", "exact") as frontier:
        fill(frontier, product_urls(hosts), count)
    weight = (lab.settled_memory() - baseline) / count
    section.figure(f"silkline, {count:,} URLs on {hosts:,} hosts", "bytes per URL").rounds.append(weight)
    return weight


def weigh_peer(lab: Lab, section: Section, entrant: Entrant) -> None:
    """Measure the bytes per URL of a peer that has enqueued and not yet processed."""
    progress(f"weighing {entrant.name}")
    lab.run_side(replace(entrant, count=BATCH), "enqueue")
    lab.redis.flushall()
    baseline = lab.settled_memory()
    section.versions |= lab.run_side(entrant, "enqueue")["versions"]
    weight = (lab.settled_memory() - baseline) / entrant.count
    section.figure(f"{entrant.name}, {entrant.count:,} URLs on 1,000 hosts", "bytes per URL").rounds.append(weight)


def measure(lab: Lab) -> Section:
    """Measure the filters, whole crawls and the peers."""
    section = Section("Memory", METHOD)
    exact_size, compact_size, bloom_size, whole, peers = (
        (300_000, 1_000_000, 100_000, 100_000, 10_000)
        if lab.quick
        else (10_000_000, 10_000_000, 1_000_000, 1_000_000, 100_000)
    )
    exact = grow_filter(lab, section, "exact", exact_size)
    compact = grow_filter(lab, section, "compact", compact_size)
    grow_filter(lab, section, f"bloom:0.0001,{bloom_size}", bloom_size)
    grow_filter(lab, section, f"bloom:0.0001,{bloom_size // 10}", bloom_size)  # outgrown
    grow_filter(lab, section, f"bloom:0.01,{bloom_size}", bloom_size)
    few, many = weigh_crawl(lab, section, whole, whole // 1_000), weigh_crawl(lab, section, whole, whole // 2)
    weigh_peer(lab, section, Entrant("scrapy-redis", "benchmarks.peers.scrapy_redis", peers))
    weigh_peer(lab, section, Entrant("RQ (no dedup)", "benchmarks.peers.rq", peers, option="bulk"))

    worst_compact = max(weight for size, weight in compact.items() if size >= 1_000_000)
    unit = "bytes"
    section.claims += [
        Claim(f"per seen URL, exact, worst of 10,000 … {exact_size:,}", unit, max(exact.values()), 10.5, 9.2),
        Claim(f"per seen URL, compact, worst of 1,000,000 … {compact_size:,}", unit, worst_compact, 6, 4.8),
        Claim(f"per URL, whole crawl, {whole:,} on {whole // 1_000:,} hosts", unit, few, 45, 23),
        Claim(f"per URL, whole crawl, {whole:,} on {whole // 2:,} hosts", unit, many, 250, 120),
    ]
    return section
