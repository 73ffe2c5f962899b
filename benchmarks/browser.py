"""Claim: pages in a browser cost no more than with Crawlee's PlaywrightCrawler.

Both sides control the same Chromium with Playwright, and render the same pages of a local shop with as many tabs at a time, after they were
given all URLs. Each writes one item per page. CPU seconds are those of the whole tree of processes: the side, Playwright's driver and Chromium.
"""

import json
import sys
from itertools import islice

from benchmarks.lab import Lab, Section, peers_python, progress, run_program, times_faster
from silkline.testing import Shop, SiteProcess

ENTRANTS = {"silkline": "benchmarks.browser_side", "Crawlee": "benchmarks.peers.crawlee_browser"}
METHOD = "Pages of 11 KiB of a shop on loopback, 4 tabs at a time; CPU of the whole tree of processes"
MUST, STRETCH = 1.0, 1.5
TABS = 4


def run_side(python: str, module: str, task: dict) -> dict:
    """Run one side in its environment, and return the line that it printed."""
    return run_program([python, "-m", module, json.dumps(task)])


def measure(lab: Lab) -> Section:
    """Render the shop with each side in turn."""
    count, rounds = (40, 1) if lab.quick else (100, 3)
    section = Section("Pages in a browser", METHOD)
    wall = {name: section.figure(name, "pages/s") for name in ENTRANTS}
    cores = {name: section.figure(name, "pages per CPU second") for name in ENTRANTS}
    shop = Shop(pages=count, page_bytes=11_000, trouble=False)
    with SiteProcess(shop) as site:
        urls = [site.at(path) for path in islice(shop.paths(), count)]
        for number in range(rounds):
            for name, module in ENTRANTS.items():
                progress(f"round {number + 1} of {rounds}: {name}")
                lab.redis.flushall()
                ours = name == "silkline"
                task = {"server": lab.url, "urls": urls, "pages": TABS}
                line = run_side(sys.executable if ours else str(peers_python()), module, task)
                wall[name].rounds.append(line["count"] / line["seconds"])
                cores[name].rounds.append(line["count"] / line["cpu"])
                section.versions |= line["versions"]
    ours, theirs = cores.values()
    section.claims.append(
        times_faster("browser pages per second and core, against Crawlee", ours, theirs, MUST, STRETCH)
    )
    return section
