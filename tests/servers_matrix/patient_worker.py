"""A worker in a process of its own that waits while shards cannot be reached, and can be killed at any time.

Run by the tests as ``python patient_worker.py JSON``. Page /0 of a host links to page /1 of the next host. A line in its log
for every lease: its own process id, "claimed" or "done", and the URL.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from functools import partial
from urllib.parse import urlsplit

from silkline import Complete, Frontier, SyncFrontier
from silkline.errors import PartlyUnavailable, StoreUnavailable

WAIT = 0.1


class Threaded:
    """A `SyncFrontier` whose verbs can be awaited."""

    def __init__(self, frontier):
        self.frontier = frontier

    def __getattr__(self, verb):
        return partial(asyncio.to_thread, getattr(self.frontier, verb))


async def patiently(act, *words, **options):
    while True:
        try:
            return await act(*words, **options)
        except StoreUnavailable:
            await asyncio.sleep(WAIT)


async def settle_patiently(frontier, verdicts):
    """Returns the leases that were lost."""
    lost = []
    while verdicts:
        try:
            return lost + (await patiently_but_partly(frontier, verdicts)).lost
        except PartlyUnavailable as error:
            lost += error.result.lost
            left = set(error.leases)
            verdicts = [(lease, verdict) for lease, verdict in verdicts if lease in left]
            await asyncio.sleep(WAIT)
    return lost


async def patiently_but_partly(frontier, verdicts):
    while True:
        try:
            return await frontier.settle(verdicts)
        except PartlyUnavailable:
            raise
        except StoreUnavailable:
            await asyncio.sleep(WAIT)


class Log:
    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, what, leases):
        """One write for all, so that a line is there or not."""
        if leases:
            os.write(self._file, "".join(f"{os.getpid()} {what} {lease.url}\n" for lease in leases).encode())


def links(url, hosts):
    parts = urlsplit(url)
    number = int(parts.hostname.partition(".")[0][1:])
    return [f"https://h{(number + 1) % hosts}.example/1"] if parts.path == "/0" else []


async def work(log, hosts, most, asynchronous, **settings):
    log, dice = Log(log), random.Random()
    if asynchronous:
        frontier = await patiently(Frontier.open, **settings)
    else:
        frontier = Threaded(await patiently(asyncio.to_thread, SyncFrontier.open, **settings))
    print("here", flush=True)
    while True:
        leases = await patiently(frontier.claim, most, wait=WAIT)
        log.note("claimed", leases)
        if not leases and await patiently(frontier.finished):
            break
        await asyncio.sleep(dice.uniform(0, 0.01))
        lost = await settle_patiently(frontier, [(lease, Complete(links(lease.url, hosts))) for lease in leases])
        log.note("done", [lease for lease in leases if lease not in lost])
        log.note("lost", lost)
    await frontier.close()


if __name__ == "__main__":
    asyncio.run(work(**json.loads(sys.argv[1])))
    print("finished", flush=True)
