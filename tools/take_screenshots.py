"""Takes the screenshots of the dashboard in docs/images, with the system's Chromium.

    python tools/take_screenshots.py

It fills two crawls on a temporary embedded server, with an hour of history, and serves the real dashboard.
"""

from __future__ import annotations

import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import sync_playwright
from redis import Redis

from silkline import Bury, Complete, Lease, Politeness, RetryIn, SyncFrontier
from silkline.frontier.embedded.supervisor import socket_of
from silkline.frontier.verbs.history import Counts, Levels
from silkline.frontier.verbs.hosts import StatusCounts

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
HOUR, STEP = 3600, 10
HOSTS = {"books": 5200, "shop": 3100, "library": 1700, "press": 1300, "store": 1100, "reader": 900, "novels": 700}
DONE = 6000
REASONS = (
    *[Bury("status 404", 404)] * 14,
    *[Bury("timeout: no response in 30 s")] * 3,
    *[Bury("handler product: KeyError (books.py:21): 'price'")] * 2,
    Bury("status 503", 503),
)


class Screenshot(NamedTuple):
    """One picture: its page, size in CSS pixels, and colors."""

    name: str
    path: str
    width: int
    height: int
    dark: bool = False
    scale: float = 1


SCREENSHOTS = (
    Screenshot("overview", "/", 1280, 860),
    Screenshot("overview-dark", "/", 1280, 860, dark=True),
    Screenshot("dead-letters", "/dead?crawl=books", 1280, 760),
    Screenshot("explain", "/requests?url=https://shop.example/catalogue/page-2900.html", 1280, 420, dark=True),
    Screenshot("phone", "/hosts?crawl=books", 390, 844, scale=1.5),
)


def main() -> None:
    random.seed(1)
    with tempfile.TemporaryDirectory(prefix="silkline-screenshots-") as folder:
        url = f"embedded:{folder}"
        with (
            SyncFrontier.open(url, crawl="books", politeness=Politeness(delay=0, concurrency=1000)) as books,
            SyncFrontier.open(url, crawl="news", politeness=Politeness(delay=1)) as news,
        ):
            fill(books)
            news.enqueue(f"https://news-{number % 40}.example/{number}" for number in range(600))
            for crawl in ("books", "news"):
                write_history(url, crawl)
            with Redis(unix_socket_path=str(socket_of(Path(folder)))) as server:
                server.config_set("maxmemory", "256mb")
            with dashboard(url) as address:
                take(address)


def fill(frontier: SyncFrontier) -> None:
    """Create requests in every state, hosts with rate limits and responses, and two workers."""
    for host, pages in HOSTS.items():
        frontier.enqueue(f"https://{host}.example/catalogue/page-{number}.html" for number in range(pages))
        frontier.enqueue(f"https://{host}.example/catalogue/page-{number}.html" for number in range(pages // 3))
    for number in range(DONE // 500):
        leases = frontier.claim(500)
        frontier.settle([(lease, verdict(number * 500 + place)) for place, lease in enumerate(leases)])
    for host in HOSTS:
        frontier.admin.set_host(f"{host}.example", concurrency=4)
    leases = frontier.claim(18, lease=HOUR)
    for host in HOSTS:
        frontier.admin.set_host(f"{host}.example", delay=None if host == "shop" else random.choice((0.5, 1, 2)))
    frontier.keep_robots("https://shop.example/", b"User-agent: *\nCrawl-delay: 5\n", crawl_delay=5)
    frontier.internal.add_answers(
        {
            f"{host}.example": StatusCounts(
                status_2xx=95 - 6 * place, status_3xx=3, status_4xx=2 * place, last=200, cpu=0.9 + 0.1 * place
            )
            for place, host in enumerate(HOSTS)
        }
    )
    for worker in ("crawler-1:4711", "crawler-2:815"):
        frontier.internal.join(worker, info=info(leases), expires=HOUR)


def verdict(number: int) -> Complete | RetryIn | Bury:
    if number % 21 == 0:
        return random.choice(REASONS)
    return RetryIn(HOUR, reason="status 503") if number % 97 == 0 else Complete()


def info(leases: list[Lease]) -> dict[str, object]:
    return {"version": "0.1.0", "memory": 150 * 2**20, "state": "working", "urls": [lease.url for lease in leases[:9]]}


def write_history(url: str, crawl: str) -> None:
    """Write the last hour of counts, step by step, with a clock that runs from an hour ago until now."""
    behind = HOUR

    def clock() -> int:
        return int((time.time() - behind) * 1000)

    with SyncFrontier.open(url, crawl=crawl, create=False, clock=clock) as frontier:
        stats = frontier.admin.stats()
        for behind in range(HOUR, -STEP, -STEP):
            counts, queue = counts_at(HOUR - behind), stats.ready + 14 * behind
            frontier.internal.add_history(
                counts,
                Levels(ready=queue, delayed=53, leased=18, done=stats.done, dead=stats.dead, discarded=0, overflow=0),
            )


def counts_at(second: int) -> Counts:
    """Return plausible counts: pages in waves, and a few minutes with errors."""
    pages = round(STEP * (50 + 12 * math.sin(second / 420) + random.uniform(-3, 3)))
    errors = round(STEP * (9 if 2000 < second < 2300 else 1) * random.uniform(0.8, 1.2))
    fast, slow = round((pages + errors) * 0.9), round((pages + errors) * 0.07)
    return Counts(
        pages=pages,
        items=round(pages * 0.95),
        bytes=pages * 14_000,
        errors=errors,
        ended=pages,
        fetched=pages + errors,
        status_2xx=pages,
        status_3xx=pages // 40,
        status_4xx=errors // 3,
        status_5xx=errors - errors // 3,
        fetch_ms=pages * 210,
        busy_ms=pages * 230,
        up_to_250ms=fast,
        up_to_500ms=slow,
        up_to_1s=pages + errors - fast - slow,
    )


@contextmanager
def dashboard(url: str) -> Iterator[str]:
    """Serve the dashboard; yield its address."""
    command = [sys.executable, "-m", "silkline", "dashboard", "--redis", url, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout
        found = next(match for line in process.stdout if (match := re.search(r"http://\S+", line)))
        yield found[0].rstrip("/")
    finally:
        process.terminate()
        process.wait()


def take(address: str) -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox as root
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=program, args=arguments) as browser,
    ):
        for shot in SCREENSHOTS:
            page = browser.new_page(
                viewport={"width": shot.width, "height": shot.height},
                device_scale_factor=shot.scale,
                color_scheme="dark" if shot.dark else "light",
            )
            page.goto(address + shot.path)
            page.wait_for_selector("[data-soon]", state="detached")  # shown while a slow query runs
            page.screenshot(path=IMAGES / f"{shot.name}.png")
            page.close()


if __name__ == "__main__":
    main()
