"""Which HTTP client fetches pages for the least CPU, and what the guard adds: ``python -m benchmarks.fetchers``.

It is not a claim of the README, but the reason for the default fetcher (docs/adr/0013).
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

import aiohttp
import uvloop
import wreq
from pyreqwest.client import ClientBuilder

from benchmarks.lab import HERE, Section, progress
from benchmarks.run import show
from silkline import Request
from silkline.fetch.aiohttp_fetcher import AiohttpFetcher
from silkline.fetch.guard import Guard
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import Shop, SiteProcess

CONCURRENCY = 64
PAGE_BYTES = 11_000
AGENT = "silkline-bench/1 (+https://example.com/bot)"
SIDES = ("silkline", "silkline on aiohttp", "wreq", "pyreqwest", "aiohttp")

Fetch = Callable[[str], Awaitable[int]]
"""Fetches a URL and returns the length of its body."""


@asynccontextmanager
async def open_side(side):
    """Open a client as its documentation shows, with streaming, which a limit on the body size needs."""
    makers = {"wreq": bare_wreq, "pyreqwest": bare_pyreqwest, "aiohttp": bare_aiohttp}
    async with makers.get(side, lambda: ours(side))() as fetch:
        yield fetch


@asynccontextmanager
async def ours(side):
    chosen = WreqFetcher if side == "silkline" else AiohttpFetcher
    fetcher = chosen(guard=Guard(allow_private=True))

    async def fetch(url):
        return len((await fetcher.fetch(Request(url), user_agent=AGENT)).body)

    yield fetch
    await fetcher.close()


@asynccontextmanager
async def bare_wreq():
    client = wreq.Client(runtime=wreq.Runtime(workers=1), no_proxy=True, user_agent=AGENT)

    async def fetch(url):
        response = await client.get(url)
        return len(b"".join([piece async for piece in response.stream()]))

    yield fetch


@asynccontextmanager
async def bare_pyreqwest():
    async with ClientBuilder().no_proxy().user_agent(AGENT).build() as client:

        async def fetch(url):
            async with client.get(url).build_streamed() as response:
                reader, pieces = response.body_reader, []
                while (piece := await reader.read_chunk()) is not None:
                    pieces.append(piece)
                return len(b"".join(pieces))

        yield fetch


@asynccontextmanager
async def bare_aiohttp():
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers={"User-Agent": AGENT}) as session:

        async def fetch(url):
            async with session.get(url) as response:
                return len(b"".join([piece async for piece in response.content.iter_any()]))

        yield fetch


async def run_side(side: str, base: str, count: int) -> dict:
    """Fetch *count* pages, 64 at a time, after a warm-up; measure wall and CPU of this process."""
    async with open_side(side) as fetch:

        async def crawl(numbers):
            async def one():
                for number in numbers:
                    assert await fetch(f"{base}product/{number % 4_700}") == PAGE_BYTES

            await asyncio.gather(*(one() for _ in range(CONCURRENCY)))

        await crawl(iter(range(2_000)))
        begun, before, main = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF), time.thread_time()
        await crawl(iter(range(count)))
        after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds = time.perf_counter() - begun
    return {"count": count, "seconds": seconds, "cpu": cpu, "loop": time.thread_time() - main}


def measure(sides: list[str], rounds: int, count: int) -> tuple[Section, dict[str, list[float]]]:
    """Run all sides in turn, in several rounds, each in a separate process."""
    section = Section(
        "Fetching pages of 11 KiB",
        f"{count:,} pages from a site in a process of its own, {CONCURRENCY} at a time, {rounds} rounds in turn; "
        "µs CPU of the fetching process, all its threads. The guard is in silkline's figures only.",
    )
    section.versions = {name: version(name) for name in ("wreq", "pyreqwest", "aiohttp", "uvloop")}
    figures = {side: section.figure(side, "pages/s") for side in sides}
    loops: dict[str, list[float]] = {side: [] for side in sides}
    with SiteProcess(Shop(pages=5_000, page_bytes=PAGE_BYTES, trouble=False)) as site:
        for number in range(rounds):
            for side in sides:
                progress(f"round {number + 1} of {rounds}: {side}")
                command = [sys.executable, "-m", "benchmarks.fetchers", "--side", side, "--url", site.url]
                done = subprocess.run(
                    [*command, "--count", str(count)], cwd=HERE.parent, stdout=subprocess.PIPE, check=True
                )
                line = json.loads(done.stdout)
                figures[side].rounds.append(line["count"] / line["seconds"])
                figures[side].cpu.append(1e6 * line["cpu"] / line["count"])
                loops[side].append(1e6 * line["loop"] / line["count"])
    first = figures[sides[0]].median
    section.ratios = {name: first / figure.median for name, figure in figures.items()}
    return section, loops


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fetchers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)  # how a side is called
    parser.add_argument("--url", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(uvloop.run(run_side(args.side, args.url, args.count))))
        return
    section, loops = measure(args.only, args.rounds, args.count)
    show(section)
    for side, values in loops.items():
        print(f"{side:20} {sorted(values)[len(values) // 2]:5.1f} µs of it in the event loop's thread (median)")
    print(", ".join(f"{name} {number}" for name, number in section.versions.items()))


if __name__ == "__main__":
    main()
