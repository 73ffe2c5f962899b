"""Claims: a Scrapy project on Silkline is as fast as Scrapy in memory, is not delayed by slow pages, and sends few commands to Redis."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks.lab import Claim, Lab, Section, peers_python, progress, run_program, times_faster
from benchmarks.scrapy_side import COMMON, NAME
from silkline.testing import LocalSite, Shop, SiteProcess, SiteResponse

METHOD = (
    "One spider, the same settings and the same Scrapy for all sides: queue in memory, scrapy-redis (in the peers' "
    "environment), silkline.scrapy. Following links: a shop of pages of 11 KiB with 32 links each, 64 requests at a time. Slow "
    "pages: 160 start URLs, pushed into a list, 1 in 16 takes 2 s, 16 requests at a time. Memory: links that one page yields, "
    "pending and seen, with callback, depth and referer, on 1,000 hosts; also with a scrapy.Item of five short fields in meta, on "
    "1,000 hosts and on one. Commands: those that clients send, not those inside scripts, counted "
    "by MONITOR in separate crawls."
)
SIDES = {"silkline": "silkline.scrapy", "redis": "scrapy-redis", "plain": "Scrapy, queue in memory"}
SLOW_EVERY, SLOW_SECONDS = 16, 2.0


def side_command(lab: Lab, task: str, side: str, site: str, pages: int, **options: Any) -> list[str]:
    """Return the command of one crawl of one side. *options* are those of `scrapy_side`: hosts, and settings of Scrapy."""
    python = str(peers_python()) if side == "redis" else sys.executable
    command = [python, "-m", "benchmarks.scrapy_side", task, side]
    command += ["--server", lab.url, "--site", site, "--pages", str(pages)]
    return [*command, *(text for name, value in options.items() for text in (f"--{name}", json.dumps(value)))]


def run_side(lab: Lab, section: Section, task: str, side: str, site: str, pages: int, **options: Any) -> dict[str, Any]:
    """Run one crawl of one side."""
    command = side_command(lab, task, side, site, pages, **options)
    line = run_program(command)
    compare_versions(section, side, line["versions"])
    return line


def compare_versions(section: Section, side: str, versions: dict[str, str]) -> None:
    """Check that all sides use the same version of Scrapy; record differences of its dependencies in the results."""
    for package, found in versions.items():
        known = section.versions.setdefault(package, found)
        if known == found:
            continue
        if package == "scrapy":
            raise RuntimeError(f"the sides have Scrapy {known} and {found}: renew benchmarks/requirements.lock")
        section.versions[f"{package} of {SIDES[side]}"] = found
    assert set(COMMON) <= set(versions)


def measure(lab: Lab) -> Section:
    """Compare throughput, slow pages, memory and commands."""
    section = Section("Scrapy", METHOD)
    race_following(lab, section)
    race_slow_pages(lab, section)
    weigh_pending(lab, section)
    count_commands(lab, section)
    return section


def race_following(lab: Lab, section: Section) -> None:
    """Measure pages per second, in rounds."""
    pages, rounds = (300, 2) if lab.quick else (2_000, 5)
    figures = {side: section.figure(f"{name}, following links", "pages per second") for side, name in SIDES.items()}
    with SiteProcess(Shop(pages=pages, page_bytes=11_000, trouble=False)) as site:
        for number in range(rounds):
            for side, figure in figures.items():
                progress(f"round {number + 1} of {rounds}: {figure.name}")
                lab.redis.flushall()
                line = run_side(lab, section, "follow", side, site.url, pages)
                figure.rounds.append(line["count"] / line["seconds"])
    ours, redis, plain = figures.values()
    section.ratios |= {figure.name: ours.median / figure.median for figure in figures.values()}
    section.claims += [
        times_faster("Scrapy following links, against its queue in memory", ours, plain, must=1.0, stretch=1.05),
        times_faster("Scrapy following links, against scrapy-redis", ours, redis, must=1.9, stretch=2.2),
    ]


def race_slow_pages(lab: Lab, section: Section) -> None:
    """Measure the seconds until all start URLs are crawled, some of which are slow."""
    pages, rounds = (160, 1) if lab.quick else (160, 3)
    figures = {side: section.figure(f"{name}, 1 page in {SLOW_EVERY} slow", "seconds") for side, name in SIDES.items()}
    routes = {
        f"/{number}": SiteResponse("<h1>page</h1>", delay=0.0 if number % SLOW_EVERY else SLOW_SECONDS)
        for number in range(pages)
    }
    with LocalSite(routes) as site:
        for number in range(rounds):
            for side, figure in figures.items():
                progress(f"round {number + 1} of {rounds}: {figure.name}")
                lab.redis.flushall()
                lab.redis.rpush(f"{NAME}:start_urls", *(f"{site.url}{page}" for page in range(pages)))
                figure.rounds.append(run_side(lab, section, "slow", side, site.url, pages)["seconds"])
    ours, _, plain = figures.values()
    pairs = tuple(mine / other for mine, other in zip(ours.rounds, plain.rounds, strict=True))
    section.claims.append(
        Claim(
            "Scrapy fed with slow pages, times the time in memory",
            "×",
            ours.median / plain.median,
            1.2,
            1.0,
            rounds=pairs,
        )
    )


def weigh_pending(lab: Lab, section: Section) -> None:
    """Measure the bytes on the server per pending request, without and with an item in its meta."""
    count = 5_000 if lab.quick else 50_000
    with LocalSite({"/": "<h1>start</h1>"}) as site:
        plain = weigh_requests(lab, section, Load("fill", "pending requests", count), site.url)
        items = weigh_requests(lab, section, Load("items", "with an item", count), site.url)
        alone = weigh_requests(lab, section, Load("items", "with an item, one host", count, hosts=1), site.url)
    section.claims += [
        Claim("bytes per pending request, of scrapy-redis'", "×", plain, 1 / 4, 1 / 8),
        Claim("bytes per pending request with an item in meta, of scrapy-redis'", "×", items, 0.35, 0.3),
        Claim("bytes per pending request with an item in meta, one host, of scrapy-redis'", "×", alone, 0.35, 0.3),
    ]


class Load(NamedTuple):
    """Requests that are weighed: the task of the side, what is special about them, and how many on how many hosts."""

    task: str
    what: str
    count: int
    hosts: int = 1_000


def weigh_requests(lab: Lab, section: Section, load: Load, site: str) -> float:
    """Return the bytes per pending request, as a multiple of those that scrapy-redis needs. The sides are weighed in turn."""
    unit = "bytes per request"
    figures = {
        side: section.figure(f"{SIDES[side]}, {load.count:,} {load.what}", unit) for side in ("silkline", "redis")
    }
    for _ in range(1 if lab.quick else 3):
        for side, figure in figures.items():
            progress(f"weighing {figure.name}")
            lab.redis.flushall()
            run_side(lab, section, load.task, side, site, 100)  # the first use of a command costs the server memory
            lab.redis.flushall()
            before = lab.settled_memory()
            run_side(lab, section, load.task, side, site, load.count, hosts=load.hosts)
            waiting = pending(lab, side)
            assert waiting == load.count, f"{waiting} of {load.count} requests of {side} wait"
            figure.rounds.append((lab.settled_memory() - before) / load.count)
    return figures["silkline"].median / figures["redis"].median


def pending(lab: Lab, side: str) -> int:
    """Return the number of pending requests."""
    if side == "redis":
        return int(lab.redis.zcard(f"{NAME}:requests"))
    return int(lab.redis.hget(f"silkline:{{{NAME}:0}}:ledger", "queued") or 0)


def count_commands(lab: Lab, section: Section) -> None:
    """Count the commands that clients send per page."""
    pages = 200 if lab.quick else 1_000
    found = {}
    with SiteProcess(Shop(pages=pages, page_bytes=11_000, trouble=False)) as site:
        for side in ("silkline", "redis"):
            progress(f"counting the commands of {SIDES[side]}")
            lab.redis.flushall()
            with watched(lab) as commands:
                run_side(lab, section, "follow", side, site.url, pages)
            found[side] = len(commands) / pages
            section.figure(f"{SIDES[side]}, commands", "per page").rounds = [found[side]]
    share = found["silkline"] / found["redis"]
    section.claims.append(Claim("commands per page, of scrapy-redis'", "×", share, 1 / 10, 0.0))


@contextmanager
def watched(lab: Lab) -> Iterator[list[str]]:
    """Collect the names of the commands that clients send in this context."""
    commands: list[str] = []
    last = "silkline-bench-last"

    def watch() -> None:
        for seen in monitor.listen():
            if last in seen["command"]:
                return
            if seen["client_type"] != "lua":
                commands.append(seen["command"].split(" ", 1)[0])

    with lab.redis.monitor() as monitor:
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield commands
        finally:
            lab.redis.echo(last)
            watcher.join()
