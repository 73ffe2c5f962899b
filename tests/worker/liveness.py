"""What the liveness suite measures: how fast a good host is crawled without and with hostile ones, and the workers' memory.

To add an attack, give it a name in `ATTACKS` and the pages that the hostile host is asked for. A page that no hostile site serves
yet belongs into `silkline.testing.site`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from silkline import SyncFrontier
from silkline.testing import LocalSite, SiteProcess
from tests.hostile_site import pages
from tests.hostile_site.costly import regular_page
from tests.hostile_site.pages import HOSTILE_SITE
from tests.worker.liveness_worker import DELAY, liveness_crawl

PAGES = 25
"""Pages of the good host in each half of a run."""
PATIENCE = 3
"""How many times as long as they should take the good pages are waited for."""
LEAST_RATIO = 0.5
TRIES = 3
MOST_MEMORY = 900 * 2**20
"""Bytes that a worker may have at any time. A page of 16 MiB, the most that is fetched, takes up to 700 MiB when it is all tags."""


class Attack(NamedTuple):
    """The paths that one host of a hostile site is asked for, over and over, and the site."""

    paths: tuple[str, ...]
    site: str = HOSTILE_SITE


ATTACKS = {
    "nested codings": Attack(("/nested/gzip-zeros-br", "/nested/gzip-members-br", "/nested/zstd-frames-br")),
    "empty gzip members": Attack(("/nested/gzip-members-gzip", "/nested/gzip-members")),
    "charsets": Attack(("/charset/punycode", "/charset/long", "/charset/meta-spaces", "/charset/undefined-bytes")),
    "nested elements": Attack(("/costly/nested", "/costly/lists", "/costly/svg", "/costly/nested-table")),
    "attributes": Attack(("/costly/attributes", "/costly/merged")),
    "formatting elements": Attack(("/costly/formatting", "/costly/formatting-open", "/costly/formatting-attributes")),
    "a million links": Attack(("/costly/million-links",)),
    "links of 640 segments": Attack(("/costly/long-links",)),
    "robots.txt with long needles": Attack((f"/{'a' * 1_900}",), site=f"{pages.__name__}:pages_with_costly_robots"),
    "crumbs": Attack(("/tiny-chunks", "/chunk-extensions")),
    "interim responses": Attack(("/early-hints", "/busy/continue")),
    "traps": Attack(("/calendar/1", "/deep/", "/session")),
    "large regular pages": Attack(("/costly/large",)),
}


class Measured(NamedTuple):
    """Pages a second of the good host, and the most memory that a worker had, in bytes."""

    without: float
    with_hostile: float
    memory: int

    @property
    def ratio(self) -> float:
        return self.with_hostile / self.without


def measure(redis: str, crawl: str, attacks: list[Attack], *, fetcher: str, workers: int = 1) -> Measured:
    """Crawl a good host alone, then beside one hostile host for each attack.

    A machine that has other things to do may be busier in the second half. So a ratio that is too low is measured again; one that is
    low because of the attack is low each time.
    """
    for number in range(TRIES):
        measured = _measure(redis, f"{crawl}-{number}", attacks, fetcher=fetcher, workers=workers)
        if measured.ratio >= LEAST_RATIO:
            break
    return measured


def _measure(redis, crawl, attacks, *, fetcher, workers):
    settings = liveness_crawl(crawl, fetcher)
    numbers = count()
    with ExitStack() as stack:
        good = stack.enter_context(LocalSite({"/*": regular_page(2_000)}))
        sites = [stack.enter_context(SiteProcess(attack.site)) for attack in attacks]
        frontier = stack.enter_context(SyncFrontier.open(redis, crawl=crawl, **settings.arguments))
        fleet = stack.enter_context(_workers(redis, crawl, fetcher, workers))
        _rate(frontier, good, 5, numbers)  # robots.txt, connections
        without = _rate(frontier, good, PAGES, numbers)
        for site, attack in zip(sites, attacks, strict=True):
            _attack(frontier, site, attack)
        _wait(lambda: all(site.visits for site in sites), 20)
        with_hostile = _rate(frontier, good, PAGES, numbers)
        return Measured(without, with_hostile, fleet.peak)


def _attack(frontier, site, attack):
    each = 3 * PAGES // len(attack.paths)
    frontier.enqueue(site.at(f"{path}?n={number}") for number in range(each) for path in attack.paths)


def _rate(frontier, good, pages, numbers):
    """Pages a second, as the good host saw them. Those that do not come in time count as not fetched."""
    good.forget()
    frontier.enqueue(good.at(f"/good/{next(numbers)}") for _ in range(pages))
    begun = time.monotonic()
    _wait(lambda: len(good.visits) >= pages, PATIENCE * pages * DELAY + 5)
    return len(good.visits) / (time.monotonic() - begun)


def _wait(holds, seconds):
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.02)


class _Fleet:
    """Worker processes, and the most memory that one of them had."""

    def __init__(self, processes):
        self.processes = processes
        self.peak = 0
        self.watching = True

    def watch(self):
        while self.watching:
            for process in self.processes:
                with suppress(OSError, IndexError):
                    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
                    self.peak = max(self.peak, pages * os.sysconf("SC_PAGE_SIZE"))
            time.sleep(0.05)


@contextmanager
def _workers(redis, crawl, fetcher, number):
    command = [sys.executable, "-m", "tests.worker.liveness_worker", redis, crawl, fetcher]
    fleet = _Fleet([subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(number)])
    watch = threading.Thread(target=fleet.watch, daemon=True)
    watch.start()
    try:
        yield fleet
        assert all(process.poll() is None for process in fleet.processes), "a worker has ended"
    finally:
        fleet.watching = False
        watch.join()
        for process in fleet.processes:
            process.kill()
            process.wait()
