"""``silkline bench``: measure the throughput of a server."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import quantiles
from typing import Annotated, TypeVar

import msgspec
from cyclopts import Parameter, validators

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.server import Json, RedisOrTemporary
from silkline.cli.options.temporary import temporary_server
from silkline.core.lease import Lease
from silkline.core.politeness import Politeness
from silkline.core.verdict import Complete
from silkline.frontier.crawl_server import connected
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.transport.redis_url import without_password

R = TypeVar("R")

ENQUEUE_BATCH = 1000
CLAIM_BATCH = 100
PACE = Politeness(delay=0, concurrency=8)


class Step(msgspec.Struct, frozen=True):
    """Throughput and latency of one kind of call, as seen by the client."""

    name: str
    batch: int
    calls: int
    per_second: int
    p50_ms: float
    p99_ms: float


class BenchReport(msgspec.Struct, frozen=True):
    """The results of ``bench``."""

    server: str
    version: str
    urls: int
    hosts: int
    steps: list[Step]
    bytes_per_url: float


class _Stopwatch:
    """Times calls of one kind."""

    def __init__(self, name: str, batch: int) -> None:
        self._name, self._batch = name, batch
        self._times: list[float] = []

    def time(self, call: Callable[[], R]) -> R:
        started = time.perf_counter()
        answer = call()
        self._times.append(time.perf_counter() - started)
        return answer

    def result(self, done: int) -> Step:
        cuts = quantiles(self._times, n=100) if len(self._times) > 1 else self._times * 99
        rate = round(done / sum(self._times))
        return Step(
            self._name, self._batch, len(self._times), rate, round(cuts[49] * 1000, 2), round(cuts[98] * 1000, 2)
        )


def bench(
    *,
    urls: Annotated[int, Parameter(validator=validators.Number(gte=1000, lte=10_000_000))] = 50_000,
    hosts: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 1_000,
    redis: RedisOrTemporary = None,
    json: Json = False,
) -> int:
    """Measure the throughput of a server.

    One client enqueues, claims and completes requests in a temporary crawl.
    Persistence and other load on the server are part of the result.

    Examples:
      silkline bench --redis redis://localhost:6379/0
      silkline bench --urls 1000000 --json

    Exit code: 0, 2 wrong usage, 3 server unavailable.

    Parameters
    ----------
    urls
        Number of URLs to enqueue, claim and complete.
    hosts
        Number of hosts.
    json
        Print the results as JSON.
    """
    with _server(redis) as url:
        report = _measure(url, urls, hosts)
    screen.print_json(report) if json else _show(report)
    return Exit.OK


@contextmanager
def _server(redis: str | None) -> Iterator[str]:
    if redis:
        yield redis
        return
    with temporary_server("silkline-bench-") as folder:
        yield f"embedded:{folder}"


def _measure(url: str, urls: int, hosts: int) -> BenchReport:
    """Measure all steps on a temporary crawl, which is always removed."""
    batches = [
        [f"https://host-{i % hosts}.example/shelf-{i % 89}/article-{i}" for i in range(start, min(start + 1000, urls))]
        for start in range(0, urls, ENQUEUE_BATCH)
    ]
    name = f"bench-{secrets.token_hex(4)}"
    with connected(url) as server, SyncFrontier.open(url, crawl=name, politeness=PACE) as frontier:
        try:
            _warm_up(frontier)
            before = server.used_memory()
            steps = [_enqueue(frontier, batches, "enqueue")]
            size = max(0, server.used_memory() - before) / urls
            steps += [_enqueue(frontier, batches[:20], "enqueue again (all seen)"), *_work(frontier)]
        finally:
            frontier.admin.remove()
        version = f"{server.server.name} {'.'.join(map(str, server.server.version))}"
    return BenchReport(without_password(url), version, urls, hosts, steps, round(size, 1))


def _warm_up(frontier: SyncFrontier) -> None:
    """Load the scripts into the server: the first use takes extra memory and time."""
    frontier.enqueue("https://warm.example/")
    frontier.settle([(lease, Complete()) for lease in frontier.claim(1)])


def _enqueue(frontier: SyncFrontier, batches: list[list[str]], name: str) -> Step:
    watch = _Stopwatch(name, ENQUEUE_BATCH)
    for batch in batches:
        watch.time(partial(frontier.enqueue, batch))
    return watch.result(sum(map(len, batches)))


def _work(frontier: SyncFrontier) -> list[Step]:
    """Claim and complete all requests."""
    claims, settles, both = (_Stopwatch(name, CLAIM_BATCH) for name in ("claim", "complete", "claim + complete"))
    done = 0

    def turn() -> list[Lease]:
        leases = claims.time(lambda: frontier.claim(CLAIM_BATCH))
        if leases:
            settles.time(lambda: frontier.settle([(lease, Complete()) for lease in leases]))
        return leases

    while leases := both.time(turn):
        done += len(leases)
    return [watch.result(done) for watch in (both, claims, settles)]


def _show(report: BenchReport) -> None:
    screen.show(f"{report.version}, {report.urls:,} URLs over {report.hosts:,} hosts, one client")
    screen.show()
    table = screen.listing("step", "per second", "per call", "calls", "p50", "p99")
    for step in report.steps:
        times = (f"{step.p50_ms:.2f} ms", f"{step.p99_ms:.2f} ms")
        table.add_row(step.name, f"{step.per_second:,}", f"{step.batch:,}", f"{step.calls:,}", *times)
    screen.show(table)
    screen.show()
    screen.show(f"memory: {report.bytes_per_url:.1f} bytes per URL, queued and seen (as counted by the server)")
