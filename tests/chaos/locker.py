"""A process that takes a lock or a place of a semaphore, or starts of a limiter, and tells what it got. Run with settings as JSON.

``hold``: prints the fencing token, waits for a line, and prints how it ended. ``count``: increments a number, reading and writing it in
two steps under a lock. ``start``: prints how many starts a limiter allowed.
"""

from __future__ import annotations

import asyncio
import json
import sys

from silkline import Frontier, SyncFrontier
from silkline.errors import LockLost


def hold(frontier, places, ttl, **_):
    lock = frontier.semaphore("a", places, ttl) if places > 1 else frontier.lock("a", ttl)
    try:
        with lock as held:
            print(held.token, flush=True)
            sys.stdin.readline()
            print("lost" if held.lost else "held", flush=True)
    except LockLost:
        print("LockLost", flush=True)


async def hold_async(url, crawl, places, ttl, **_):
    async with await Frontier.open(url, crawl=crawl) as frontier:
        lock = frontier.semaphore("a", places, ttl) if places > 1 else frontier.lock("a", ttl)
        try:
            async with lock as held:
                print(held.token, flush=True)
                await asyncio.to_thread(sys.stdin.readline)
                print("lost" if held.lost else "held", flush=True)
        except LockLost:
            print("LockLost", flush=True)


def count(frontier, times, ttl, **_):
    """The number is the delay of a host: something of the server that is read and written in two calls."""
    for _ in range(times):
        try:
            with frontier.lock("a", ttl):
                [state] = frontier.admin.hosts("count.example")
                frontier.admin.set_host("count.example", delay=state.delay + 1.0)
        except LockLost:
            print("LockLost", flush=True)
        else:
            print("counted", flush=True)


def start(frontier, times, burst, **_):
    limiter = frontier.limiter("api", "1/h", burst)
    print(sum(limiter.try_acquire() for _ in range(times)), flush=True)


if __name__ == "__main__":
    chosen = json.loads(sys.argv[1])
    if chosen.get("is_async"):
        asyncio.run(hold_async(**chosen))
    else:
        with SyncFrontier.open(chosen["url"], crawl=chosen["crawl"]) as opened:
            {"hold": hold, "count": count, "start": start}[chosen["do"]](opened, **chosen)
