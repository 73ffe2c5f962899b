"""Claims: the cost of a claim does not depend on the number of pending requests or waiting hosts."""

from statistics import quantiles
from time import perf_counter
from typing import NamedTuple

from benchmarks.lab import Claim, Figure, Lab, Section, progress
from benchmarks.memory import CAPACITY, fill
from benchmarks.urls import product_urls, take
from silkline import Complete, Lease, Politeness, SyncFrontier

METHOD = (
    "Depth: two crawls on one server, 100 hosts each (so that a claim gets 8 requests per host in both), in turn, refilled "
    "after each turn. Breadth: every waiting host has a request and waits for an hour; 1,000 other hosts are ready. One "
    "request per host at a time is the harder case, because 100 leases need 100 hosts, and it is the one that counts. Script "
    "times are measured by the server (INFO commandstats before and after each claim): wall time inside the server, "
    "including waits for a busy core. CPU time has no such waits, but includes network I/O and one INFO. Much of the time is "
    "spent on memory management of Lua, so it depends on the allocator of the server."
)
CLAIM = 100
DEEP_HOSTS = 100
OPEN_HOSTS = 1_000
HOUR = 3_600


class Times(NamedTuple):
    """The cost of each call for the server."""

    script_ms: list[float]
    cpu_us: list[float]
    """CPU time of the main thread, including network I/O of the call and one INFO."""


class Crawl:
    """A crawl with a constant number of pending requests."""

    def __init__(self, lab: Lab, depth: int) -> None:
        politeness = Politeness(delay=0, concurrency=8)
        self.depth = depth
        self.frontier = SyncFrontier.open(lab.url, crawl=f"deep-{depth}", capacity=CAPACITY, politeness=politeness)
        self.urls = product_urls(DEEP_HOSTS)
        fill(self.frontier, self.urls, depth)

    def turn(self, leases: int) -> float:
        """Claim and complete *leases*; return the rate per second. Then refill, without timing."""
        start, done = perf_counter(), 0
        while done < leases:
            done += claim_and_complete(self.frontier)
        seconds = perf_counter() - start
        fill(self.frontier, self.urls, done)
        return done / seconds


def claim_and_complete(frontier: SyncFrontier, wanted: int = CLAIM) -> int:
    """Claim and complete one batch, as a worker would."""
    leases = frontier.claim(wanted)
    for lease in leases:
        assert lease.url
    complete(frontier, leases)
    return len(leases)


def complete(frontier: SyncFrontier, leases: list[Lease]) -> None:
    """Settle *leases* as completed."""
    frontier.settle([(lease, Complete()) for lease in leases])


def measure_depth(lab: Lab, section: Section) -> None:
    """Measure claim + complete with few and with many pending requests."""
    shallow, deep, rounds = (10_000, 300_000, 7) if lab.quick else (10_000, 10_000_000, 21)
    lab.redis.flushall()
    progress(f"filling {deep:,}")
    crawls = [Crawl(lab, shallow), Crawl(lab, deep)]
    figures = [section.figure(f"claim + complete, {crawl.depth:,} pending", "per second") for crawl in crawls]
    for crawl in crawls:
        crawl.turn(2_000)
    for number in range(rounds):
        progress(f"depth, round {number + 1} of {rounds}")
        for crawl, figure in zip(crawls, figures, strict=True):
            figure.rounds.append(crawl.turn(5_000))
    for crawl in crawls:
        crawl.frontier.close()
    slower = figures[0].median / figures[1].median
    pairs = tuple(few / many for few, many in zip(figures[0].rounds, figures[1].rounds, strict=True))
    name = f"claim + complete, times slower at {deep:,} than at {shallow:,} pending"
    section.claims.append(Claim(name, "×", slower, 1.3, 1.1, rounds=pairs))


def make_waiting(frontier: SyncFrontier, hosts: int) -> None:
    """Enqueue two requests for each of *hosts* hosts and claim the first: the second waits for the delay."""
    urls = product_urls(max(1, hosts), site="waiting")
    fill(frontier, urls, hosts)
    taken = 0
    while taken < hosts:
        progress(f"{taken:,} of {hosts:,} hosts are waiting")
        taken += claim_and_complete(frontier, 500)
    fill(frontier, urls, hosts)


def open_hosts(frontier: SyncFrontier, site: str, each: int, requests: int) -> None:
    """Add OPEN_HOSTS hosts without delay, with a concurrency of *each*, and *requests* requests in total."""
    for url in take(OPEN_HOSTS, OPEN_HOSTS, site=site):
        frontier.admin.set_host(url.split("/")[2], delay=0, concurrency=each)
    fill(frontier, product_urls(OPEN_HOSTS, site=site), requests)


def script_clock(lab: Lab) -> tuple[float, float]:
    """Return the milliseconds that the server has spent in scripts, and its CPU microseconds."""
    stats, cpu = lab.redis.info("commandstats"), lab.redis.info("cpu")
    wall = sum(stats[name]["usec"] for name in ("cmdstat_evalsha", "cmdstat_eval") if name in stats) / 1_000
    return wall, 1e6 * (float(cpu["used_cpu_user_main_thread"]) + float(cpu["used_cpu_sys_main_thread"]))


def claim_times(lab: Lab, frontier: SyncFrontier, calls: int) -> Times:
    """Measure the cost of *calls* claims of 100 leases each."""
    times = Times([], [])
    for _ in range(calls):
        wall, cpu = script_clock(lab)
        leases = frontier.claim(CLAIM)
        wall_after, cpu_after = script_clock(lab)
        times.script_ms.append(wall_after - wall)
        times.cpu_us.append(cpu_after - cpu)
        assert len(leases) == CLAIM
        complete(frontier, leases)
    return times


def percentile_99(times: list[float]) -> float:
    """Return the 99th percentile."""
    return float(quantiles(times, n=100)[98])


def measure_breadth(lab: Lab, section: Section) -> None:
    """Measure the time of the claim script without waiting hosts and with very many."""
    waiting, calls = (50_000, 100) if lab.quick else (1_000_000, 500)
    lab.redis.flushall()
    with SyncFrontier.open(
        lab.url, crawl="broad", capacity=CAPACITY, politeness=Politeness(delay=HOUR, concurrency=1)
    ) as frontier:
        found: dict[tuple[int, int], Times] = {}
        for crowd in (0, waiting):
            make_waiting(frontier, crowd)
            for each in (8, 1):
                open_hosts(frontier, f"open-{crowd}-{each}-", each, CLAIM * calls)
                found[crowd, each] = claim_times(lab, frontier, calls)
    for (crowd, each), times in found.items():
        name = f"claim script, {OPEN_HOSTS:,} open, {crowd:,} waiting, {each} a host"
        section.figures += [
            Figure(name, "ms", times.script_ms, cpu=times.cpu_us),
            Figure(f"{name}: p99", "ms", [percentile_99(times.script_ms)], cpu=[percentile_99(times.cpu_us)]),
        ]
    name = f"claim script with {waiting:,} hosts waiting and {OPEN_HOSTS:,} open, 100 leases of 100 hosts: p99"
    section.claims.append(Claim(name, "ms", percentile_99(found[waiting, 1].script_ms), 5, 1))


def measure(lab: Lab) -> Section:
    """Measure depth, then breadth."""
    section = Section("Scale", METHOD)
    measure_depth(lab, section)
    measure_breadth(lab, section)
    return section
