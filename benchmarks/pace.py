"""Claims: the Scrapy plugin keeps the pace of Scrapy itself, and the web server sees the delay."""

import json
import subprocess
from itertools import pairwise
from typing import Any

from benchmarks.lab import HERE, SIDE_TIMEOUT, Claim, Figure, Lab, Section, progress, times_faster
from benchmarks.pace_site import HOSTS, PAGES
from benchmarks.scrapy import SIDES, run_side, side_command
from silkline.testing import LocalSite, SiteProcess

METHOD = (
    "One spider that follows links, the same settings and the same Scrapy for all sides. Pages of 4 KiB with 20 links each. "
    "Links: 2,000 pages, 32 requests at a time. Cap: 600 pages of 50 ms, 16 requests at a time, 8 per host. Delay: one worker on one host, "
    "the allowed pace is one request per delay, and the gaps are those that the web server sees. Workers: pages of 300 ms, the "
    "default settings, SILKLINE_POLITENESS_CLUSTER_WIDE=False. Start: 50,000 requests from start()."
)
SITE = "benchmarks.pace_site:routes"
CAP, LATENCY = 8, 0.05
DELAYS = {0.05: 160, 0.1: 80, 0.25: 32, 0.5: 16}
"""The number of pages by delay in seconds: about 8 seconds each."""
SLOW = 0.3
WORKERS = 3


def measure(lab: Lab) -> Section:
    """Measure the pace in each situation."""
    section = Section("Pace of the Scrapy plugin", METHOD)
    race_links(lab, section, hosts=1)
    race_links(lab, section, hosts=HOSTS)
    race_cap(lab, section)
    keep_delays(lab, section)
    add_workers(lab, section)
    begin_early(lab, section)
    return section


def race_links(lab: Lab, section: Section, hosts: int) -> None:
    """Measure pages per second of a spider that follows links."""
    rounds, where = 1 if lab.quick else 5, "one host" if hosts == 1 else f"{hosts} hosts"
    figures = {side: section.figure(f"{name}, links, {where}", "pages per second") for side, name in SIDES.items()}
    settings = {"CONCURRENT_REQUESTS": 32, "CONCURRENT_REQUESTS_PER_DOMAIN": 32}
    with SiteProcess(SITE, hosts=hosts) as site:
        _race(lab, section, figures, f"{site.url}crawl/{hosts}/0", PAGES["crawl"], settings, rounds)
    ours, redis, plain = figures.values()
    section.claims += [
        times_faster(f"Scrapy following links on {where}, against its queue in memory", ours, plain, 1.0, 1.05),
        times_faster(f"Scrapy following links on {where}, against scrapy-redis", ours, redis, 1.9, 2.2),
    ]


def race_cap(lab: Lab, section: Section) -> None:
    """Measure pages per second of one host at its cap."""
    rounds = 1 if lab.quick else 5
    sides = {side: SIDES[side] for side in ("silkline", "plain")}
    figures = {side: section.figure(f"{name}, cap of {CAP}", "pages per second") for side, name in sides.items()}
    settings = {"CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": CAP}
    with SiteProcess(SITE, latency=LATENCY) as site:
        _race(lab, section, figures, f"{site.url}capped/1/0", PAGES["capped"], settings, rounds)
    ours, plain = figures.values()
    section.claims.append(
        times_faster(f"Scrapy on one host at a cap of {CAP}, against its queue in memory", ours, plain, 0.95, 1.0)
    )


def _race(
    lab: Lab, section: Section, figures: dict[str, Figure], url: str, pages: int, settings: dict[str, Any], rounds: int
) -> None:
    for number in range(rounds):
        for side, figure in figures.items():
            progress(f"round {number + 1} of {rounds}: {figure.name}")
            lab.redis.flushall()
            line = run_side(lab, section, "follow", side, url, pages, settings=settings)
            figure.rounds.append(line["count"] / line["seconds"])
    ours = next(iter(figures.values()))
    section.ratios |= {figure.name: ours.median / figure.median for figure in figures.values()}


def keep_delays(lab: Lab, section: Section) -> None:
    """Measure the pace of one worker on one host with a delay, and the shortest gap that the web server sees."""
    rounds = 1 if lab.quick else 3
    for delay, pages in DELAYS.items():
        figures = {
            side: (
                section.figure(f"{SIDES[side]}, delay {delay:g} s", "of the allowed pace"),
                section.figure(f"{SIDES[side]}, delay {delay:g} s, shortest gap", "seconds"),
            )
            for side in ("silkline", "plain")
        }
        urls = {f"/{number}": "<h1>a page</h1>" for number in range(pages)}
        links = "".join(f"<a href={url}>page</a>" for url in urls)
        settings = {"DOWNLOAD_DELAY": delay, "RANDOMIZE_DOWNLOAD_DELAY": False, "CONCURRENT_REQUESTS_PER_DOMAIN": CAP}
        for number in range(rounds):
            for side, (pace, gap) in figures.items():
                progress(f"round {number + 1} of {rounds}: {pace.name}")
                lab.redis.flushall()
                with LocalSite({"/": links} | urls) as site:
                    run_side(lab, section, "follow", side, site.url, pages + 1, settings=settings)
                    times = sorted(visit.at for visit in site.visits)
                pace.rounds.append((len(times) - 2) * delay / (times[-1] - times[1]))
                gap.rounds.append(min(later - earlier for earlier, later in pairwise(times)))
        ours, shortest = figures["silkline"]
        section.claims += [
            Claim(f"share of the allowed pace at a delay of {delay:g} s", "", ours.median, 0.95, 0.97, at_least=True),
            Claim(f"shortest gap at a delay of {delay:g} s", "s", min(shortest.rounds), delay, delay, at_least=True),
        ]


def add_workers(lab: Lab, section: Section) -> None:
    """Measure one worker and several on one host, if each keeps the limits for itself."""
    rounds = 1 if lab.quick else 3
    figures = {
        count: section.figure(f"silkline.scrapy, pages of {SLOW:g} s, {count} workers", "pages per second")
        for count in (1, WORKERS)
    }
    settings = {
        "CONCURRENT_REQUESTS": 16,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "SILKLINE_POLITENESS_CLUSTER_WIDE": False,
    }
    for number in range(rounds):
        for count, figure in figures.items():
            progress(f"round {number + 1} of {rounds}: {figure.name}")
            lab.redis.flushall()
            with SiteProcess(SITE, latency=SLOW) as site:
                command = side_command(
                    lab, "follow", "silkline", f"{site.url}slow/1/0", PAGES["slow"], settings=settings
                )
                _run_together([[*command, "--part"]] * count)
                times = sorted(visit.at for visit in site.visits)
            figure.rounds.append(len(times) / (times[-1] - times[0]))
    one, several = figures.values()
    section.claims.append(times_faster(f"{WORKERS} workers on one host against one", several, one, 2.0, 2.5))


def _run_together(commands: list[list[str]]) -> None:
    running = [subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE) for command in commands]
    pages = [json.loads(process.communicate(timeout=SIDE_TIMEOUT)[0].splitlines()[-1])["count"] for process in running]
    assert sum(pages) >= PAGES["slow"], f"{pages} of {PAGES['slow']} pages"


def begin_early(lab: Lab, section: Section) -> None:
    """Measure the time to the first page while start() yields many requests, and how many it has yielded by then."""
    count, rounds = (5_000, 1) if lab.quick else (50_000, 3)
    seconds = {
        side: section.figure(f"{name}, {count:,} from start()", "s to the first page") for side, name in SIDES.items()
    }
    yielded = {
        side: section.figure(f"{name}, {count:,} from start()", "yielded before it") for side, name in SIDES.items()
    }
    with LocalSite({"/": "<h1>a page</h1>"}) as site:
        for number in range(rounds):
            for side, figure in seconds.items():
                progress(f"round {number + 1} of {rounds}: {figure.name}")
                lab.redis.flushall()
                line = run_side(lab, section, "starts", side, site.url, count, settings={"CONCURRENT_REQUESTS": 16})
                figure.rounds.append(line["seconds"])
                yielded[side].rounds.append(line["yielded"])
    share = yielded["silkline"].median / count
    section.claims.append(Claim("start requests yielded before the first page, of all", "×", share, 0.2, 0.1))
