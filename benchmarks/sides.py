"""How a side of a race is called and answers: arguments in, one JSON line out.

Standard library and redis-py only, because the peers import it from their own environment.
"""

import argparse
import json
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

from redis import Redis

from benchmarks.urls import clustered, take

WARM_UP = 300
"""URLs handled before the clock starts: imports, connections and script caches are not what is compared."""


@dataclass(frozen=True, slots=True)
class Task:
    """What one run of one side has to do."""

    verb: str
    """``enqueue``: time putting the URLs in. ``process``: put them in untimed, then time taking them out."""
    server: str
    urls: list[str]
    warm_up: list[str]
    option: str
    """A side's own variant, such as RQ's ``bulk``."""


def read_task() -> Task:
    """The task from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["enqueue", "process"])
    parser.add_argument("--server", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--option", default="")
    parser.add_argument("--clustered", action="store_true", help="runs of 20 URLs of one host, as links are")
    args = parser.parse_args()
    urls = (clustered if args.clustered else take)(args.count, args.hosts)
    return Task(args.verb, args.server, urls, take(WARM_UP, args.hosts, site="warm"), args.option)


class Stopwatch:
    """Measures its block: seconds on the wall, and CPU seconds of this process and of the server together."""

    def __init__(self, server: str) -> None:
        self.seconds = self.cpu = 0.0
        self._redis = Redis.from_url(server)

    def _cpu(self) -> float:
        info = self._redis.info("cpu")
        return time.process_time() + float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def __enter__(self) -> Self:
        self.cpu = self._cpu()
        self.seconds = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.seconds
        self.cpu = self._cpu() - self.cpu


def answer(count: int, watch: Stopwatch, *packages: str) -> None:
    """Print the one line the race reads."""
    versions = {package: version(package) for package in (*packages, "redis", "hiredis")}
    print(json.dumps({"count": count, "seconds": watch.seconds, "cpu": watch.cpu, "versions": versions}))
