"""Claim: any listing of the command line takes less than 300 ms on a crawl of 5 M pending, 100 k hosts, 100 k dead letters,
and none uses a Redis command whose cost grows with the crawl. Run it separately; it takes some minutes to fill the crawl.

Times are those of the command inside this process, with a new connection each; the time inside the server is shown next to
them.
"""

import argparse
import contextlib
import io
import time
from collections.abc import Iterator
from itertools import islice
from statistics import median_low
from typing import NamedTuple

from redis import Redis

from benchmarks.lab import Lab, open_lab, progress
from silkline import Bury, Politeness, Request, SyncFrontier
from silkline.cli.main import run

CRAWL = "large"
MUST_MS = 300
ROUNDS = 5
"""Number of runs; the median counts."""
REASONS = (
    "status 404",
    "status 503",
    "timeout: no answer within 30 s",
    "a loop of redirects, back to https://x.example/1",
)

FORBIDDEN = {"keys", "smembers", "hgetall", "hkeys", "hvals", "sort", "sinter", "sunion", "sdiff"}
"""Commands that read a whole key or the whole server."""
RANGES = {"lrange", "zrange", "zrevrange", "zrangebyscore", "zrevrangebyscore", "hscan", "scan"}
"""Commands with a limit; the time of one call is printed."""


class Cost(NamedTuple):
    """The cost of a command."""

    command: str
    seconds: float
    server_ms: float
    used: dict[str, tuple[int, float]]
    """Calls of each Redis command, and the longest average time of a call in microseconds."""

    @property
    def forbidden(self) -> set[str]:
        return FORBIDDEN & set(self.used)


def fill(url: str, pending: int, hosts: int, dead: int) -> None:
    """Create a crawl with these numbers of queued requests, hosts and dead letters."""
    with SyncFrontier.open(
        url, crawl=CRAWL, capacity=50_000_000, politeness=Politeness(delay=0, concurrency=50)
    ) as one:
        left = _urls(hosts)
        for first in range(0, dead, 1_000):
            one.enqueue(list(islice(left, min(1_000, dead - first))))
            leases = one.claim(1_000)
            one.settle([(lease, Bury(REASONS[n % 4], 503 if n % 4 == 1 else None)) for n, lease in enumerate(leases)])
        for first in range(0, pending, 1_000):
            one.enqueue(list(islice(left, min(1_000, pending - first))))
            if first % 1_000_000 == 0:
                progress(f"{first:,} of {pending:,}")
        one.enqueue([Request(f"https://h{n % hosts}.example/high/{n}", priority=5) for n in range(100)])
        one.admin.pause("h7.example")
        one.claim(1_000, lease=86_400)
        one.internal.join("worker-1", info={"urls": ["https://h1.example/1"]})
        one.internal.append_audit("somebody@somewhere", "pause", "h7.example")


def _urls(hosts: int) -> Iterator[str]:
    number = 0
    while True:
        yield f"https://h{number % hosts}.example/catalogue/page-{number}"
        number += 1


def listings(url: str, pending: int, hosts: int) -> list[list[str]]:
    """Return all commands that only read."""
    with SyncFrontier.open(url, crawl=CRAWL) as frontier:
        letter = frontier.admin.dead(limit=1)[0].id
    waiting = f"https://h{(pending - 1) % hosts}.example/catalogue/page-{pending - 1}"
    return [
        ["status"],
        ["status", CRAWL],
        ["crawl", "ls"],
        ["crawl", "show", CRAWL],
        ["crawl", "audit", CRAWL],
        ["host", "ls", CRAWL],
        ["host", "ls", CRAWL, "--place", "paused"],
        ["host", "show", CRAWL, "h7.example"],
        ["dead", "ls", CRAWL],
        ["dead", "ls", CRAWL, "--letters"],
        ["dead", "ls", CRAWL, "--status", "503"],
        ["dead", "ls", CRAWL, "--status", "418"],
        ["dead", "ls", CRAWL, "--host", "h5.example"],
        ["dead", "ls", CRAWL, "--host", "nowhere.example"],
        ["dead", "show", CRAWL, letter],
        ["dead", "revive", CRAWL, "--host", "h5.example", "--dry-run"],
        ["dead", "revive", CRAWL, "--dry-run"],
        ["explain", waiting, "--crawl", CRAWL],
        ["explain", "https://h5.example/catalogue/page-5", "--crawl", CRAWL],
        ["explain", "https://h5.example/never", "--crawl", CRAWL],
        ["explain", "https://nowhere.example/", "--crawl", CRAWL],
        ["workers", "ls", CRAWL],
        ["plan", "--from", CRAWL],
        ["doctor"],
    ]


def measure(redis: Redis, url: str, command: list[str]) -> Cost:
    redis.config_resetstat()
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = run([*command, "--redis", url])
    seconds = time.perf_counter() - start
    assert code in (0, 1), (command, code)
    stats = redis.info("commandstats")
    used = {name[8:].lower(): (one["calls"], one["usec_per_call"]) for name, one in stats.items()}
    scripts = sum(one["usec"] for name, one in stats.items() if name[8:].lower() in ("evalsha", "eval", "info"))
    return Cost(" ".join(command), seconds, scripts / 1000, used)


def measure_all(lab: Lab, pending: int, hosts: int, dead: int) -> list[Cost]:
    fill(lab.url, pending, hosts, dead)
    commands = listings(lab.url, pending, hosts)
    costs = [[measure(lab.redis, lab.url, command) for command in commands] for _ in range(ROUNDS)]
    return [median_low(rounds) for rounds in zip(*costs, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=5_000_000)
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--dead", type=int, default=100_000)
    args = parser.parse_args()
    with open_lab(quick=False) as lab:
        costs = measure_all(lab, args.pending, args.hosts, args.dead)
        for cost in costs:
            late = "" if cost.seconds * 1000 < MUST_MS else "  TOO LONG"
            bad = f"  USES {', '.join(sorted(cost.forbidden))}" if cost.forbidden else ""
            print(f"{cost.seconds * 1000:7.0f} ms  {cost.server_ms:7.1f} ms on the server  {cost.command}{late}{bad}")
        start = time.perf_counter()
        run(["fsck", CRAWL, "--redis", lab.url])
        print(f"fsck took {time.perf_counter() - start:.1f} s")
    return 1 if any(cost.forbidden or cost.seconds * 1000 >= MUST_MS for cost in costs) else 0


if __name__ == "__main__":
    raise SystemExit(main())
