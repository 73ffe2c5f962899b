"""A pool of proxies of which some are dead, against good ones only: ``python -m benchmarks.proxies``.

The proxies are addresses of this machine, in a process of their own, and return the page themselves. Of the dead ones, a third refuses
connections, a third closes them, and a third never replies. Both pools fetch for 30 seconds, then they are measured in turn. Then four workers
fetch for a minute, which share what they know, and the tries of all of them are counted.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

import uvloop

from benchmarks.lab import HERE, Section, open_lab, progress
from benchmarks.run import show
from silkline import Frontier, Request
from silkline.errors import ProxyFailure
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.local import raise_limit
from silkline.fetch.wreq_fetcher import WreqFetcher

CONCURRENCY = 64
MUST = 0.9
PAGE = b"x" * 4_096
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(PAGE) + PAGE
AGENT = "silkline-bench/1 (+https://example.com/bot)"
REFUSES, CLOSES, IS_SILENT = range(3)
DEAD_PORT = 1
"""Where nothing listens."""


def address(number: int) -> str:
    return f"127.1.{number // 250}.{number % 250 + 1}"


class Server(asyncio.Protocol):
    """All proxies but those that refuse connections: the local address says which one is meant."""

    tries: ClassVar[Counter[str]] = Counter()
    bad: ClassVar[dict[str, int]] = {}

    def connection_made(self, transport):
        self.transport = transport
        place = transport.get_extra_info("sockname")[0]
        self.trouble = self.bad.get(place)
        if self.trouble is not None:
            self.tries[place] += 1
        if self.trouble == CLOSES:
            transport.close()
        self.rest = b""

    def data_received(self, data):
        if self.trouble is not None:
            return
        self.rest += data
        while b"\r\n\r\n" in self.rest:
            _, _, self.rest = self.rest.partition(b"\r\n\r\n")
            self.transport.write(REPLY)


async def serve_proxies(bad: dict[str, int]) -> None:
    """Serve until stdin closes, then print how often each dead proxy was tried."""
    Server.bad = bad
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "0.0.0.0", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(json.dumps(Server.tries))


async def fetch_for(fetcher: WreqFetcher, seconds: float) -> float:
    """Fetch pages for some seconds; return pages per second. A page that a proxy fails is tried again."""
    end, pages, begun = time.monotonic() + seconds, 0, time.monotonic()

    async def one(number: int) -> None:
        nonlocal pages
        while time.monotonic() < end:
            number += CONCURRENCY
            try:
                await fetcher.fetch(Request(f"http://shop.test/{number}"), user_agent=AGENT)
            except ProxyFailure as failure:
                await asyncio.sleep(min(failure.after, 0.5))
            else:
                pages += 1

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds + 1):
            await asyncio.gather(*(one(number) for number in range(CONCURRENCY)))
    return pages / (time.monotonic() - begun)


async def fetch_as_fleet(redis: str, urls: list[str], seconds: float, workers: int) -> None:
    """Fetch with several pools that share the health of their proxies."""
    async with await Frontier.open(redis, crawl="proxies") as frontier:
        fetchers = [WreqFetcher(Limits(), guard=Guard(), proxy=urls) for _ in range(workers)]
        share = frontier.internal.share_proxies
        sharing = [asyncio.create_task(fetcher.proxies.share_health(share)) for fetcher in fetchers]
        await asyncio.gather(*(fetch_for(fetcher, seconds) for fetcher in fetchers))
        for task in sharing:
            task.cancel()
        await asyncio.gather(*sharing, return_exceptions=True)
        for fetcher in fetchers:
            await fetcher.close()


@contextmanager
def proxies(count: int, dead: int) -> Iterator[tuple[list[str], Counter[str]]]:
    """Start proxies, the dead ones first; yield their URLs, and a counter that has the tries of dead ones afterwards."""
    bad = {address(number): number % 3 for number in range(dead)}
    command = [sys.executable, "-m", "benchmarks.proxies", "--serve", json.dumps(bad)]
    tries: Counter[str] = Counter()
    with subprocess.Popen(command, cwd=HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        ports = {place: DEAD_PORT if trouble == REFUSES else port for place, trouble in bad.items()}
        yield [f"http://{address(number)}:{ports.get(address(number), port)}" for number in range(count)], tries
        tries.update(json.loads(server.communicate()[0]))


async def measure(pools: dict[str, list[str]], section: Section, *, warm: float, window: float, rounds: int) -> None:
    fetchers = {name: WreqFetcher(Limits(), guard=Guard(), proxy=urls) for name, urls in pools.items()}
    figures = {name: section.figure(name, "pages/s") for name in pools}
    for name, fetcher in fetchers.items():
        progress(f"{warm:g} s before the measurement: {name}")
        rate = await fetch_for(fetcher, warm)
        print(f"{name}: {rate:.0f} pages/s in the first {warm:g} s")
    for number in range(rounds):
        for name, fetcher in fetchers.items():
            progress(f"round {number + 1} of {rounds}: {name}")
            figures[name].rounds.append(await fetch_for(fetcher, window))
    for fetcher in fetchers.values():
        await fetcher.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proxies", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--dead", type=float, default=0.3, help="the part of them that is dead")
    parser.add_argument("--warm", type=float, default=30.0)
    parser.add_argument("--window", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=4, help="the workers that share what they know of proxies")
    parser.add_argument("--fleet", type=float, default=60.0, help="the seconds for which these fetch")
    parser.add_argument("--json", action="store_true", help="print the result as JSON too")
    parser.add_argument("--serve", help=argparse.SUPPRESS)  # how the proxies are called
    args = parser.parse_args()
    if args.serve:
        uvloop.run(serve_proxies(json.loads(args.serve)))
        return
    raise_limit()
    dead = round(args.count * args.dead)
    with proxies(args.count, dead) as (urls, tries):
        mixed, good = f"{args.count:,} proxies, {dead:,} dead", f"{args.count - dead:,} proxies, none dead"
        section = Section("Proxies", f"{CONCURRENCY} fetches at a time, after {args.warm:g} s; rounds in turn")
        pools = {mixed: urls, good: urls[dead:]}
        uvloop.run(measure(pools, section, warm=args.warm, window=args.window, rounds=args.rounds))
    first, second = section.figures
    ratio = first.median / second.median
    show(section)
    print(f"{ratio:.2f} × the throughput (must be at least {MUST})")
    print(f"one worker: {in_words(tries)}")
    progress(f"{args.workers} workers that share what they know, for {args.fleet:g} s")
    with open_lab(quick=False) as lab, proxies(args.count, dead) as (urls, by_fleet):
        uvloop.run(fetch_as_fleet(lab.url, urls, args.fleet, args.workers))
    print(f"{args.workers} workers in {args.fleet:g} s: {in_words(by_fleet)}")
    if args.json:
        most = {"most_tries": max(tries.values()), "most_tries_of_fleet": max(by_fleet.values())}
        print(json.dumps({"ratio": ratio, **most, "rounds": [first.rounds, second.rounds]}))


def in_words(tries: Counter[str]) -> str:
    most, mean = max(tries.values(), default=0), sum(tries.values()) / max(len(tries), 1)
    return f"each of {len(tries)} dead proxies that accept connections was tried {mean:.1f} times on average, {most} times at most"


if __name__ == "__main__":
    main()
