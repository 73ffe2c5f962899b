"""Claims: whole crawls are many times faster than with Scrapy, scale with processes, and use constant memory."""

import os
import sys
from typing import Any

from benchmarks.lab import Claim, Figure, Lab, Section, peers_python, progress, run_program, times_faster
from silkline.testing import Shop, SiteProcess

METHOD = (
    "A shop of 5,000 pages of 11 KiB with 32 links each, served on loopback by a separate process. Every page is fetched "
    "once, every link is followed, and one item per page is written as JSON lines. Silkline: one worker process, leases, the "
    "frontier on the server, robots.txt, items fsynced before their page is done. Scrapy: 64 requests at a time, no "
    "robots.txt, no delay. The start of the interpreter is not counted. The site and the server use the same cores."
)
ENTRANTS = {
    "silkline, 1 worker process": "1",
    "Scrapy + scrapy-redis": "redis",
    "Scrapy": "",
    "silkline, 2 worker processes": "2",
}


def run_side(lab: Lab, name: str, option: str, site: str, pages: int) -> dict[str, Any]:
    """Run one crawl of one side on an empty server."""
    lab.redis.flushall()
    ours = name.startswith("silkline")
    module = "benchmarks.crawl_side" if ours else "benchmarks.peers.scrapy_crawl"
    command = [sys.executable if ours else str(peers_python()), "-m", module]
    command += ["--server", lab.url, "--site", site, "--pages", str(pages), "--option", option]
    return run_program(command)


def measure(lab: Lab) -> Section:
    """Compare the crawlers, then measure the memory of a long crawl."""
    section = Section("Crawl", METHOD)
    pages, rounds = (1_000, 2) if lab.quick else (5_000, 3)
    figures = {name: section.figure(name, "pages per second") for name in ENTRANTS}
    with SiteProcess(Shop(pages=pages, page_bytes=11_000, trouble=False)) as site:
        for number in range(rounds):
            for name, option in ENTRANTS.items():
                progress(f"round {number + 1} of {rounds}: {name}")
                line = run_side(lab, name, option, site.url, pages)
                figures[name].rounds.append(line["count"] / line["seconds"])
                section.versions |= line["versions"]
    ours, redis, plain, two = figures.values()
    section.ratios = {name: ours.median / figure.median for name, figure in figures.items()}
    section.claims += [
        times_faster("crawl, against Scrapy + scrapy-redis", ours, redis, must=30, stretch=60),
        times_faster("crawl, against Scrapy", ours, plain, must=15, stretch=30),
        times_faster(
            f"crawl, two worker processes against one, on {os.cpu_count()} cores", two, ours, must=1.5, stretch=2
        ),
    ]
    measure_memory(lab, section)
    return section


def measure_memory(lab: Lab, section: Section) -> None:
    """Measure the memory of the worker early and late in a long crawl."""
    early, late = (500, 3_000) if lab.quick else (5_000, 100_000)
    progress(f"memory of a worker over {late:,} pages")
    with SiteProcess(Shop(pages=late, page_bytes=11_000, trouble=False)) as site:
        readings = run_side(lab, "silkline", "1:memory", site.url, late)["memory"]
    first = next(rss for done, rss in readings if done >= early)
    last = readings[-1][1] or readings[-2][1]
    section.figures += [
        Figure(f"resident memory after {early:,} pages", "MiB", [first / 2**20]),
        Figure(f"resident memory after {late:,} pages", "MiB", [last / 2**20]),
    ]
    section.claims.append(
        Claim(f"memory after {late:,} pages, times that after {early:,}", "×", last / first, 1.2, 1.0)
    )
