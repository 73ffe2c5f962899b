"""Claim: a page that has not changed costs a fraction of the CPU time of its first visit."""

import sys
from statistics import median
from typing import Any

from benchmarks.lab import Claim, Lab, Section, progress, run_program
from silkline.testing import SiteProcess

METHOD = (
    "The shop of the crawl benchmark, 5,000 pages of 11 KiB with 32 links each, visited twice by one worker process: first all pages, then all again, "
    "which are due within a few seconds. The server has an ETag for each page, and replies 304; or it sends each page again, and the worker compares its "
    "hash. CPU is that of the worker process, per page."
)
ENTRANTS = {"the server replies 304": "304", "the server sends the same page": "same"}


def run_side(lab: Lab, option: str, site: str, pages: int) -> dict[str, Any]:
    """Visit all pages twice on an empty server."""
    lab.redis.flushall()
    command = [sys.executable, "-m", "benchmarks.revisit_side", "--server", lab.url, "--site", site]
    command += ["--pages", str(pages), "--option", option]
    return run_program(command)


def measure(lab: Lab) -> Section:
    """Compare a visit of unchanged pages with their first visit."""
    section = Section("Revisits", METHOD)
    pages, rounds = 5_000, 1 if lab.quick else 3
    shares: dict[str, list[float]] = {name: [] for name in ENTRANTS}
    with SiteProcess("benchmarks.revisit_side:with_etags") as site:
        for number in range(rounds):
            for name, option in ENTRANTS.items():
                progress(f"round {number + 1} of {rounds}: {name}")
                line = run_side(lab, option, site.url, pages)
                for visit in ("first", "again"):
                    title = f"{name}: {'first visit' if visit == 'first' else 'second visit'}"
                    found = [figure for figure in section.figures if figure.name == title]
                    figure = found[0] if found else section.figure(title, "µs of CPU per page")
                    figure.rounds.append(line["cpu"][visit] / pages * 1e6)
                shares[name].append(line["cpu"]["again"] / line["cpu"]["first"])
                section.versions |= line["versions"]
    replied = shares["the server replies 304"]
    section.claims.append(
        Claim(
            "CPU of a visit of unchanged pages that get 304, of their first visit",
            "×",
            median(replied),
            must=0.3,
            stretch=0.2,
            rounds=tuple(replied),
        )
    )
    return section
