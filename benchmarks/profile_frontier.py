"""Where the time goes: ``python -m benchmarks.profile_frontier enqueue|process [--count N] [--hosts N]``.

Runs Silkline's side in this process against a new server, twice: once without a profiler, for wall time, CPU time and the
server's commandstats, and once with cProfile, for the functions. It is a tool for tuning and not part of ``make bench``.
"""

import argparse
import cProfile
import pstats
import time
from typing import Any

from rich.table import Table

from benchmarks.lab import Lab, console, open_lab
from benchmarks.silkline_side import ENQUEUE_BATCH, POLITENESS, enqueue, process
from benchmarks.urls import batches, take
from silkline import SyncFrontier


def server_cpu(lab: Lab) -> float:
    """Return the CPU seconds that the server has used so far."""
    info = lab.redis.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def prepare(lab: Lab, verb: str, urls: list[str]) -> tuple[SyncFrontier, list[list[str]]]:
    """Return a crawl on an empty server with loaded scripts; for *process* it is filled."""
    lab.redis.flushall()
    with SyncFrontier.open(lab.url, crawl="warm", politeness=POLITENESS) as warm:
        enqueue(warm, [take(300, 100, site="warm")])
        process(warm)
    frontier = SyncFrontier.open(lab.url, crawl="profile", politeness=POLITENESS)
    parts = batches(urls, ENQUEUE_BATCH)
    if verb == "process":
        enqueue(frontier, parts)
    lab.redis.config_resetstat()
    return frontier, parts


def work(frontier: SyncFrontier, verb: str, parts: list[list[str]]) -> None:
    """Run the measured part."""
    if verb == "process":
        process(frontier)
    else:
        enqueue(frontier, parts)


def show_stats(stats: dict[str, Any], count: int) -> None:
    """Print the commands of the server, most expensive first; commands inside a script count for the script too."""
    table = Table(title="Server, INFO commandstats", title_justify="left")
    for heading in ("command", "calls", "µs a call", "µs per URL"):
        table.add_column(heading, justify="left" if heading == "command" else "right")
    for name, row in sorted(stats.items(), key=lambda item: -item[1]["usec"])[:20]:
        cells = (f"{row['calls']:,}", f"{row['usec_per_call']:.2f}", f"{row['usec'] / count:.2f}")
        table.add_row(name.removeprefix("cmdstat_"), *cells)
    console.print(table)


def main() -> None:
    """Measure without the profiler, then with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["enqueue", "process"])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--hosts", type=int, default=1_000)
    args = parser.parse_args()
    urls = take(args.count, args.hosts)
    with open_lab(quick=False) as lab:
        frontier, parts = prepare(lab, args.verb, urls)
        before, mine, start = server_cpu(lab), time.process_time(), time.perf_counter()
        work(frontier, args.verb, parts)
        wall, own = time.perf_counter() - start, time.process_time() - mine
        theirs = server_cpu(lab) - before
        show_stats(lab.redis.info("commandstats"), args.count)
        each = [f"{1e6 * seconds / args.count:.1f} µs" for seconds in (wall, own, theirs)]
        console.print(f"per URL: {each[0]} wall, {each[1]} CPU here, {each[2]} CPU of the server; ", end="")
        console.print(f"{args.count / wall:,.0f} per second")
        frontier.close()

        frontier, parts = prepare(lab, args.verb, urls)
        profiler = cProfile.Profile()
        profiler.runcall(work, frontier, args.verb, parts)
        pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(25)
        frontier.close()


if __name__ == "__main__":
    main()
