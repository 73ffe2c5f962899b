"""The interface of a side: command-line arguments in, one JSON line out.

Standard library and redis-py only, because the peers import it from their own environment.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

from redis import Redis

from benchmarks.urls import clustered, take

WARM_UP = 300
"""URLs processed before timing starts, so that imports, connections and script caches do not count."""
POLLED = "polled"
"""The option of a side whose callers and workers look for results and jobs as often as is reasonable, and not as their documentation
says."""
LOOK_EVERY = 0.001
"""Seconds between two looks of such a side."""
FEW = 2
"""Calls before timing starts, of a side that takes half a second for each."""


@dataclass(frozen=True, slots=True)
class Task:
    """The task of one run of one side."""

    verb: str
    """``enqueue``: time the enqueueing. ``process``: enqueue without timing, then time the processing. ``call``: start a process
    with the verb ``work``, which runs a worker until it is killed, and time calls: each waits for the result of the one before."""
    server: str
    urls: list[str]
    warm_up: list[str]
    option: str
    """A variant of the side, such as RQ's ``bulk``."""


def read_task() -> Task:
    """Read the task from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["enqueue", "process", "call", "work"])
    parser.add_argument("--server", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--option", default="")
    parser.add_argument("--clustered", action="store_true", help="runs of 20 URLs of one host, as links are")
    args = parser.parse_args()
    urls = (clustered if args.clustered else take)(args.count, args.hosts)
    return Task(args.verb, args.server, urls, take(WARM_UP, args.hosts, site="warm"), args.option)


@contextmanager
def worker_process(module: str, task: Task) -> Iterator[None]:
    """Run a side with the verb ``work`` in a process of its own."""
    command = [sys.executable, "-m", module, "work", "--server", task.server, "--count", "0", "--option", task.option]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Stopwatch:
    """Measures the wall time of its block, and the CPU time of this process and the server together."""

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
    """Print the result line."""
    versions = {package: version(package) for package in (*packages, "redis", "hiredis")}
    print(json.dumps({"count": count, "seconds": watch.seconds, "cpu": watch.cpu, "versions": versions}))
