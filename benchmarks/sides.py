"""How a side of a race is called and answers: arguments in, one JSON line out.

Standard library only, because the peers import it from their own environment.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

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


def answer(count: int, seconds: float, *packages: str) -> None:
    """Print the one line the race reads."""
    versions = {package: version(package) for package in packages}
    print(json.dumps({"count": count, "seconds": seconds, "versions": versions}))


def seconds_of(work: Callable[[], object]) -> float:
    """How long *work* took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
