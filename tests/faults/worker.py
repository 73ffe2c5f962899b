"""A worker in a process of its own, which writes what its frontier claims and settles to a log: ``python worker.py JSON``.

Each line is a JSON list: the kind of event, the machine's monotonic time, and what `history` reads. A line is written with one call, so
that a killed process leaves no half of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path

from silkline import Complete, Crawl, FetchOptions, Frontier, Politeness, Scope, WorkerOptions
from silkline.errors import PartlyUnavailable
from silkline.worker.process import process


class Log:
    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, kind, *words):
        os.write(self.file, json.dumps([kind, time.monotonic(), *words]).encode() + b"\n")


class RecordingFrontier(Frontier):
    """Writes each reply to a claim, and each verdict that was accepted."""

    log = None

    async def claim(self, *arguments, **options):
        leases = await super().claim(*arguments, **options)
        self.log.write("reply", len(leases))
        for lease in leases:
            began = lease.expires - self._lease_ms / 1000
            self.log.write("claim", lease.url, lease.shard, lease.token, lease.nonce, began, lease.attempt)
        return leases

    async def settle(self, verdicts):
        pairs, sent = list(verdicts), time.monotonic()
        try:
            outcome = await super().settle(pairs)
        except PartlyUnavailable as error:
            self.note(pairs, sent, error.result, error.leases)
            raise
        self.note(pairs, sent, outcome)
        return outcome

    def note(self, pairs, sent, outcome, unreached=()):
        for lease, verdict in pairs:
            if lease not in outcome.lost and lease not in unreached:
                is_complete = isinstance(verdict, Complete) and lease not in outcome.postponed
                kind = "complete" if is_complete else "end"
                self.log.write(kind, lease.url, lease.shard, lease.token, lease.nonce, sent)


def crawl_of(name, delay, cap, blocks=""):
    crawl = Crawl(
        name,
        politeness=Politeness(delay=delay, concurrency=cap),
        scope=Scope(stay="anywhere"),
        fetching=FetchOptions(allow_private=True),
    )

    @crawl.handler
    def page(page):
        blocked = Path("blocked")
        if blocks and page.url.endswith(blocks) and not blocked.exists():
            blocked.touch()
            time.sleep(4)  # the event loop, for longer than a lease
        yield {"url": page.url}
        for link in page.css("a"):
            yield page.follow(link)

    return crawl


async def main(settings):
    os.chdir(settings["folder"])
    RecordingFrontier.log = Log(settings["log"])
    process.Frontier = RecordingFrontier
    crawl = crawl_of(settings["crawl"], settings["delay"], settings["cap"], settings.get("blocks", ""))
    options = WorkerOptions(concurrency=6, lease=settings["lease"], blocked_limit=0)
    await process.work(crawl, settings["url"], [settings["items"]], options=options)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(json.loads(sys.argv[1])))
