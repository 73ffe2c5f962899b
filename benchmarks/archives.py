"""Claim: handlers run over an archive faster than over the web, and an archive costs a crawl little."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.lab import Lab, Section, progress, run_program, times_faster
from silkline.testing import Shop, SiteProcess

LATENCY = 0.05
METHOD = (
    "The shop of the crawl benchmark, 5,000 pages of 11 KiB with 32 links each, by one worker process: live, with eight pages at a time that "
    "take 50 ms each; live on loopback without any delay; the same with -o pages.warc.gz; and from that archive, including its index. All "
    "follow every link, and write an item per page. CPU is that of the worker process."
)
POLITE = "live, 8 pages of 50 ms at a time"
ENTRANTS = {POLITE: "polite", "live": "live", "live, with an archive": "write", "from the archive": "read"}


def run_side(lab: Lab, option: str, site: str, pages: int) -> dict[str, Any]:
    """Run one crawl on an empty server."""
    lab.redis.flushall()
    command = [sys.executable, "-m", "benchmarks.archive_side", "--server", lab.url, "--site", site]
    command += ["--pages", str(pages), "--option", option]
    return run_program(command)


def measure(lab: Lab) -> Section:
    """Compare a live crawl with one of its archive."""
    section = Section("Archives", METHOD)
    pages, rounds = (1_000, 2) if lab.quick else (5_000, 3)
    figures = {name: section.figure(name, "pages per second") for name in ENTRANTS}
    shop = Shop(pages=pages, page_bytes=11_000, trouble=False)
    with (
        SiteProcess(shop) as site,
        SiteProcess(shop, latency=LATENCY) as slow,
        tempfile.TemporaryDirectory(prefix="silkline-bench-") as folder,
    ):
        for number in range(rounds):
            archive = Path(folder) / f"{number}.warc.gz"
            for name, how in ENTRANTS.items():
                progress(f"round {number + 1} of {rounds}: {name}")
                line = run_side(lab, f"{how}:{archive}", (slow if name == POLITE else site).url, pages)
                figures[name].rounds.append(line["count"] / line["seconds"])
                figures[name].cpu.append(line["cpu"] / line["count"] * 1e6)
                section.versions |= line["versions"]
    polite, live, written, read = figures.values()
    section.ratios = {name: figure.median / live.median for name, figure in figures.items()}
    section.claims += [
        times_faster(
            "handlers over an archive, against a crawl of 8 pages of 50 ms at a time", read, polite, must=3, stretch=6
        ),
        times_faster("a crawl with an archive, against one without, on loopback", written, live, must=0.5, stretch=0.8),
    ]
    return section
