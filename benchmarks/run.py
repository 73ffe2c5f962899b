"""Measure every claim of the README: ``python -m benchmarks.run [--quick] [--only enqueue …] [--check]``."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from benchmarks import (
    archives,
    browser,
    claim,
    crawl,
    enqueue,
    feeds,
    memory,
    pace,
    revisits,
    scale,
    scrapy,
    tasks,
    watched,
)
from benchmarks.lab import HERE, Claim, Lab, Section, circumstances, compile_source, console, open_lab, peers_python

BENCHMARKS: dict[str, Callable[[Lab], Section]] = {
    "enqueue": enqueue.measure,
    "feeds": feeds.measure,
    "claim": claim.measure,
    "watched": watched.measure,
    "memory": memory.measure,
    "scale": scale.measure,
    "crawl": crawl.measure,
    "archives": archives.measure,
    "revisits": revisits.measure,
    "scrapy": scrapy.measure,
    "pace": pace.measure,
    "tasks": tasks.measure,
    "browser": browser.measure,
}
COLOURS = {"stretch": "green", "must": "cyan", "missed": "red"}


def number(value: float) -> str:
    """Format a number with three significant digits and thousands separators."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def show(section: Section) -> None:
    """Print the figures of one benchmark."""
    table = Table(title=section.title, title_justify="left", title_style="bold", caption=section.method)
    table.caption_justify = "left"
    for heading in ("figure", "unit"):
        table.add_column(heading)
    for heading in ("median", "lowest", "highest", "readings", "ratio", "µs CPU"):
        table.add_column(heading, justify="right")
    for figure in section.figures:
        rounds = figure.rounds
        cells = [number(value) for value in (figure.median, min(rounds), max(rounds))]
        ratio = f"{number(section.ratios[figure.name])} ×" if figure.name in section.ratios else ""
        cpu = number(median(figure.cpu)) if figure.cpu else ""
        table.add_row(figure.name, figure.unit, *cells, str(len(rounds)), ratio, cpu)
    console.print(table)
    console.print()


def show_claims(claims: list[Claim], *, quick: bool) -> None:
    """Print the claims and the measured values."""
    title = "Claims" + (" (quick: smaller sizes, do not quote)" if quick else "")
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("claim", "measured", "must", "stretch", "verdict"):
        table.add_column(heading, justify="left" if heading == "claim" else "right")
    for one in claims:
        sign = "≥" if one.at_least else "≤"
        bounds = (f"{sign} {bound:g}" for bound in (one.must, one.stretch))
        verdict = f"[{COLOURS[one.verdict]}]{one.verdict}[/]"
        table.add_row(one.name, f"{number(one.value)} {one.unit}", *bounds, verdict)
    console.print(table)


def as_data(section: Section, circumstance: dict[str, Any]) -> dict[str, Any]:
    """Return the section for the JSON file: time and machine, raw rounds, medians and verdicts."""
    data = {"circumstances": circumstance, **asdict(section)}
    for figure in data["figures"]:
        figure["median"] = median(figure["rounds"])
    for entry, one in zip(data["claims"], section.claims, strict=True):
        entry["verdict"] = one.verdict
    return data


def keep(path: Path, name: str, measured: dict[str, Any]) -> None:
    """Write a section to the JSON file; it replaces the earlier results of that section."""
    path.parent.mkdir(exist_ok=True)
    known = (json.loads(path.read_text()) if path.exists() else {}) | {name: measured}
    path.write_text(json.dumps({each: known[each] for each in BENCHMARKS if each in known}, indent=1) + "\n")


def read_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Measure the claims of the README.")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, a few minutes; writes results/quick.json")
    parser.add_argument(
        "--only", nargs="+", choices=BENCHMARKS, help="run only these; the results of the others are kept"
    )
    parser.add_argument("--check", action="store_true", help="exit with code 1 if a claim misses its “must” bound")
    return parser.parse_args()


def main() -> int:
    """Run the benchmarks, print and store the results."""
    args = read_arguments()
    peers_python()
    compile_source(HERE.parent, Path(sys.prefix))
    path, claims = HERE / "results" / ("quick.json" if args.quick else "latest.json"), []
    with open_lab(quick=args.quick) as lab:
        for name in args.only or BENCHMARKS:
            circumstance = circumstances(lab)
            console.print_json(data=circumstance)
            section = BENCHMARKS[name](lab)
            show(section)
            keep(path, name, as_data(section, circumstance))
            claims += section.claims
    show_claims(claims, quick=args.quick)
    console.print(f"Written to {path.relative_to(HERE.parent)}")
    return int(args.check and any(one.verdict == "missed" for one in claims))


if __name__ == "__main__":
    sys.exit(main())
