"""Compare this checkout with another one: ``python -m benchmarks.compare ../other [--only enqueue …] [--rounds 9]``.

Both run the same work in turn, on one server: each checkout with its own environment (``make env``) and its own sides. So a change can be
compared with the version before it, on any machine.
"""

import argparse
import resource
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.table import Table

from benchmarks.lab import HERE, Lab, compile_source, console, open_lab, progress, run_program
from benchmarks.scrapy import side_command
from silkline.testing import Shop, SiteProcess

HERE_ROOT = HERE.parent
PAGES = {"crawl": 5_000, "scrapy": 1_500}
URLS = {"enqueue": 200_000, "claim": 100_000}
CALLS = {"tasks": 30_000, "calls": 100_000, "round trips": 500}


class Run(NamedTuple):
    """One run of one checkout."""

    rate: float
    cpu: float
    """Microseconds of CPU per URL or page, of the client and the server."""


def run(lab: Lab, checkout: Path, arguments: list[str]) -> Run:
    """Run one side of a checkout on an empty server."""
    lab.redis.flushall()
    before = _cpu(lab)
    command = [str(checkout / ".venv" / "bin" / "python"), *arguments]
    line = run_program(command, folder=checkout)
    cpu = line["cpu"] if "cpu" in line else _cpu(lab) - before
    return Run(line["count"] / line["seconds"], 1e6 * cpu / line["count"])


def _cpu(lab: Lab) -> float:
    """Return the CPU seconds that all sides and the server have used so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    server: dict[str, Any] = lab.redis.info("cpu")
    return float(children.ru_utime + children.ru_stime + server["used_cpu_user"] + server["used_cpu_sys"])


def of_queue(verb: str, count: int) -> Callable[[Lab, str], list[str]]:
    """Return the arguments of a side of the queue."""

    def arguments(lab: Lab, _: str) -> list[str]:
        size = ["--count", str(count), "--hosts", "1000", "--option", ""]
        return ["-m", "benchmarks.silkline_side", verb, "--server", lab.url, *size]

    return arguments


def of_tasks(verb: str, count: int) -> Callable[[Lab, str], list[str]]:
    """Return the arguments of a side of the tasks."""

    def arguments(lab: Lab, _: str) -> list[str]:
        return [
            "-m",
            "benchmarks.silkline_tasks_side",
            verb,
            "--server",
            lab.url,
            "--count",
            str(count),
            "--option",
            "",
        ]

    return arguments


def of_crawl(lab: Lab, site: str) -> list[str]:
    """Return the arguments of a whole crawl."""
    task = ["--server", lab.url, "--site", site, "--pages", str(PAGES["crawl"]), "--option", "1"]
    return ["-m", "benchmarks.crawl_side", *task]


def of_scrapy(lab: Lab, site: str) -> list[str]:
    """Return the arguments of a Scrapy spider on the plugin."""
    return side_command(lab, "follow", "silkline", site, PAGES["scrapy"])[1:]


KINDS = {
    "enqueue": of_queue("enqueue", URLS["enqueue"]),
    "claim": of_queue("process", URLS["claim"]),
    "tasks": of_tasks("process", CALLS["tasks"]),
    "calls": of_tasks("enqueue", CALLS["calls"]),
    "round trips": of_tasks("call", CALLS["round trips"]),
    "crawl": of_crawl,
    "scrapy": of_scrapy,
}


def main() -> None:
    """Run both checkouts in turn, and print the medians and their ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description="Compare two checkouts.")
    parser.add_argument("other", type=Path, help="the other checkout, after `make env` there")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    checkouts = {"this": HERE_ROOT, "other": args.other.resolve()}
    for checkout in checkouts.values():
        compile_source(checkout, checkout / ".venv")
    table = Table(title=f"This checkout against {args.other}", title_justify="left", title_style="bold")
    for heading in ("work", "this, per second", "other", "ratio", "this, µs CPU", "other", "ratio"):
        table.add_column(heading, justify="left" if heading == "work" else "right")
    with open_lab(quick=False) as lab:
        for kind in args.only:
            pages = PAGES.get(kind, 100)
            with SiteProcess(Shop(pages=pages, page_bytes=11_000, trouble=False)) as site:
                runs: dict[str, list[Run]] = {name: [] for name in checkouts}
                for number in range(args.rounds):
                    for name, checkout in checkouts.items():
                        progress(f"round {number + 1} of {args.rounds}: {kind}, {name}")
                        runs[name].append(run(lab, checkout, KINDS[kind](lab, site.url)))
            rates = {name: median(one.rate for one in some) for name, some in runs.items()}
            cpu = {name: median(one.cpu for one in some) for name, some in runs.items()}
            cells = [f"{rates['this']:,.0f}", f"{rates['other']:,.0f}", f"{rates['this'] / rates['other']:.2f}"]
            cells += [f"{cpu['this']:.1f}", f"{cpu['other']:.1f}", f"{cpu['this'] / cpu['other']:.2f}"]
            table.add_row(kind, *cells)
    console.print(table)


if __name__ == "__main__":
    main()
