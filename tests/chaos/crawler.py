"""A worker in a process of its own: claims, finds links, completes, until nothing is left; then says "finished".

Run by the tests as ``python crawler.py JSON``. The site is made up: every page links to the next page of its host and to
its like on the next host. What it does is logged to a file, a line per lease that it settled: host, when it began on the
server's clock, and from when to when we held it for sure, on the clock all processes share.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from pathlib import Path

from silkline import Complete, Frontier, SyncFrontier

WAIT = 0.2


class Crawler:
    def __init__(self, log, hosts, pages, lease, seed, asynchronous, **settings):
        self.log = Path(log).open("a", buffering=1)  # noqa: SIM115 - until the process ends
        self.hosts, self.pages, self.lease = hosts, pages, lease
        self.asynchronous = asynchronous
        self.random = random.Random(seed)
        self.settings = {"lease": lease, **settings}

    def links(self, url):
        host, page = map(int, re.fullmatch(r"https://h(\d+)\.example/(\d+)", url).groups())
        found = [f"https://h{(host + 1) % self.hosts}.example/{page}"]
        return [*found, f"https://h{host}.example/{page + 1}"] if page + 1 < self.pages else found

    def verdicts(self, leases):
        return [(lease, Complete(self.links(lease.url))) for lease in leases]

    def note(self, leases, lost, since, until):
        for lease in leases:
            if lease not in lost:
                self.log.write(f"{lease.host} {round((lease.expires - self.lease) * 1000)} {since} {until}\n")

    def crawl(self):
        with SyncFrontier.open(**self.settings) as frontier:
            while True:
                leases = frontier.claim(self.random.randint(1, 12), wait=WAIT)
                since = time.monotonic()
                if not leases and frontier.finished():
                    return
                time.sleep(self.random.uniform(0, 0.01))
                until = time.monotonic()
                self.note(leases, frontier.settle(self.verdicts(leases)).lost, since, until)

    async def crawl_async(self):
        async with await Frontier.open(**self.settings) as frontier:
            while True:
                leases = await frontier.claim(self.random.randint(1, 12), wait=WAIT)
                since = time.monotonic()
                if not leases and await frontier.finished():
                    return
                await asyncio.sleep(self.random.uniform(0, 0.01))
                until = time.monotonic()
                outcome = await frontier.settle(self.verdicts(leases))
                self.note(leases, outcome.lost, since, until)


if __name__ == "__main__":
    crawler = Crawler(**json.loads(sys.argv[1]))
    print("here", flush=True)
    if crawler.asynchronous:
        asyncio.run(crawler.crawl_async())
    else:
        crawler.crawl()
    print("finished", flush=True)
