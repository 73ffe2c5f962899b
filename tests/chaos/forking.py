"""Opens a frontier, then forks children that all use it, and prints what they were told.

Run by the tests as ``python forking.py KIND URL CRAWL CHILDREN REQUESTS``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from silkline import Admission, Frontier, Politeness, SyncFrontier

AT_ONCE = Politeness(delay=0, concurrency=1000)


def told(answers):
    return sum(answer is Admission.ADDED for answer in answers)


def use_sync(frontier, who, requests):
    added = sum(told(frontier.enqueue(f"https://h{who}.example/{number}")) for number in range(requests))
    leases = [lease for _ in range(requests // 2) for lease in frontier.claim(1, wait=5)]
    for lease in leases:
        frontier.complete(lease)
    return {"added": added, "leased": [lease.url for lease in leases]}


async def use_async(frontier, who, requests):
    added = sum([told(await frontier.enqueue(f"https://h{who}.example/{number}")) for number in range(requests)])
    leases = [lease for _ in range(requests // 2) for lease in await frontier.claim(1, wait=5)]
    for lease in leases:
        await frontier.complete(lease)
    return {"added": added, "leased": [lease.url for lease in leases]}


def fork(use):
    """Runs *use* in a child; returns where its answer can be read."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        return os.fdopen(reading)
    try:
        os.write(writing, json.dumps(use()).encode())
    finally:
        os._exit(0)


def main_sync(url, crawl, children, requests):
    with SyncFrontier.open(url, crawl=crawl, politeness=AT_ONCE) as frontier:
        frontier.enqueue("https://first.example/")
        frontier.complete(frontier.claim(1, wait=5)[0])  # it listens now
        pipes = [fork(lambda who=who: use_sync(frontier, who, requests)) for who in range(children)]
        answers = [use_sync(frontier, "parent", requests), *(json.load(pipe) for pipe in pipes)]
        frontier.claim(1, wait=0.01)
        return {"children": answers, "done": frontier.admin.stats().done, "accepted": frontier.admin.stats().accepted}


async def main_async(url, crawl, children, requests):
    async with await Frontier.open(url, crawl=crawl, politeness=AT_ONCE) as frontier:
        await frontier.enqueue("https://first.example/")
        await frontier.complete((await frontier.claim(1, wait=5))[0])

        def child(who):
            asyncio.events._set_running_loop(None)  # as multiprocessing does in a child
            return asyncio.run(use_async(frontier, who, requests))

        pipes = [fork(lambda who=who: child(who)) for who in range(children)]
        answers = [await use_async(frontier, "parent", requests)]
        answers += [json.loads(await asyncio.to_thread(pipe.read)) for pipe in pipes]
        stats = await frontier.admin.stats()
        return {"children": answers, "done": stats.done, "accepted": stats.accepted}


if __name__ == "__main__":
    kind, url, crawl, children, requests = sys.argv[1:]
    work = (url, crawl, int(children), int(requests))
    print(json.dumps(main_sync(*work) if kind == "sync" else asyncio.run(main_async(*work))))
