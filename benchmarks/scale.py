"""Claims: claiming costs the same however much is pending, and however many hosts are waiting."""

from statistics import quantiles
from time import perf_counter
from typing import NamedTuple

from benchmarks.lab import Claim, Figure, Lab, Section, progress
from benchmarks.memory import CAPACITY, fill
from benchmarks.urls import product_urls, take
from silkline import Complete, Lease, Politeness, SyncFrontier

METHOD = (
    "Depth: two crawls on one server, 100 hosts each (so that a claim finds its fill of 8 per host in both), turn by turn, "
    "refilled after each turn. Breadth: every waiting host has a request and an hour to wait; 1,000 more are open. "
    "One request a host at a time is the harder case, 100 leases then take 100 hosts, and the one that counts. Script "
    "times are the server's own (INFO commandstats before and after each claim): wall time inside the server, waits for "
    "a busy core included. The CPU beside it has no such waits, but includes reading, answering and an INFO. Much of "
    "the time goes into what Lua allocates and collects, so it depends on the allocator that the server was built with."
)
CLAIM = 100
DEEP_HOSTS = 100
OPEN_HOSTS = 1_000
HOUR = 3_600


class Times(NamedTuple):
    """What each of many calls cost the server."""

    script_ms: list[float]
    cpu_us: list[float]
    """Of its main thread, the call's reading and answering and one INFO included."""


class Crawl:
    """A crawl kept at a constant depth."""

    def __init__(self, lab: Lab, depth: int) -> None:
        politeness = Politeness(delay=0, concurrency=8)
        self.depth = depth
        self.frontier = SyncFrontier.open(lab.url, crawl=f"deep-{depth}", capacity=CAPACITY, politeness=politeness)
        self.urls = product_urls(DEEP_HOSTS)
        fill(self.frontier, self.urls, depth)

    def turn(self, leases: int) -> float:
        """Claim and complete *leases*; how many a second. Then fill up again, untimed."""
        start, done = perf_counter(), 0
        while done < leases:
            done += claim_and_complete(self.frontier)
        seconds = perf_counter() - start
        fill(self.frontier, self.urls, done)
        return done / seconds


def claim_and_complete(frontier: SyncFrontier, wanted: int = CLAIM) -> int:
    """One batch, as a worker would."""
    leases = frontier.claim(wanted)
    for lease in leases:
        assert lease.url
    complete(frontier, leases)
    return len(leases)


def complete(frontier: SyncFrontier, leases: list[Lease]) -> None:
    """Settle *leases* as finished well."""
    frontier.settle([(lease, Complete()) for lease in leases])


def measure_depth(lab: Lab, section: Section) -> None:
    """Claim + complete in a shallow and in a deep crawl."""
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
    """Give *hosts* hosts two requests each and take the first: the second waits for the delay."""
    urls = product_urls(max(1, hosts), site="waiting")
    fill(frontier, urls, hosts)
    taken = 0
    while taken < hosts:
        progress(f"{taken:,} of {hosts:,} hosts are waiting")
        taken += claim_and_complete(frontier, 500)
    fill(frontier, urls, hosts)


def open_hosts(frontier: SyncFrontier, site: str, each: int, requests: int) -> None:
    """OPEN_HOSTS new hosts without delay, *each* requests at a time, and *requests* between them."""
    for url in take(OPEN_HOSTS, OPEN_HOSTS, site=site):
        frontier.set_host(url.split("/")[2], delay=0, concurrency=each)
    fill(frontier, product_urls(OPEN_HOSTS, site=site), requests)


def script_clock(lab: Lab) -> tuple[float, float]:
    """What the server has spent so far: milliseconds in scripts by its own clock, and microseconds of CPU in all."""
    stats, cpu = lab.redis.info("commandstats"), lab.redis.info("cpu")
    wall = sum(stats[name]["usec"] for name in ("cmdstat_evalsha", "cmdstat_eval") if name in stats) / 1_000
    return wall, 1e6 * (float(cpu["used_cpu_user_main_thread"]) + float(cpu["used_cpu_sys_main_thread"]))


def claim_times(lab: Lab, frontier: SyncFrontier, calls: int) -> Times:
    """The cost to the server of *calls* claims of 100 leases each."""
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
    """What one call in a hundred exceeds."""
    return float(quantiles(times, n=100)[98])


def measure_breadth(lab: Lab, section: Section) -> None:
    """The claim script's time with no and with very many hosts waiting."""
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
    """Depth, then breadth."""
    section = Section("Scale", METHOD)
    measure_depth(lab, section)
    measure_breadth(lab, section)
    return section
