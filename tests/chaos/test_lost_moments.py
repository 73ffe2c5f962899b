"""Threads crawl a site while shards are taken back to earlier moments, again and again: no page may be missing."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from silkline import Complete, Politeness, SyncFrontier
from silkline.runtime.settling import KnownLinks

AT_ONCE = Politeness(delay=0, concurrency=1000)
PAGES = 6000
DUMP = """
local kept = {}
for _, name in ipairs(redis.call("KEYS", ARGV[1] .. ":*")) do
  kept[#kept + 1] = name
  kept[#kept + 1] = redis.call("PTTL", name)
  kept[#kept + 1] = redis.call("DUMP", name)
end
return kept
"""
PUT_BACK = """
for _, name in ipairs(redis.call("KEYS", ARGV[1] .. ":*")) do redis.call("DEL", name) end
for i = 2, #ARGV, 3 do redis.call("RESTORE", ARGV[i], math.max(0, tonumber(ARGV[i + 1])), ARGV[i + 2]) end
"""


def url(number):
    return f"https://h{number * 7 % 12}.example/{number}"


def links_of(lease):
    """Those of a binary tree, and some to pages that are known by now."""
    number = int(lease.url.rpartition("/")[2])
    below = [url(child) for child in (2 * number + 1, 2 * number + 2) if child < PAGES]
    return below + [url((number * 31 + step) % max(1, number)) for step in (0, 17, 34)]


def work(frontier, done, over):
    """As a worker does, which leaves out links that it has seen the frontier take."""
    known = KnownLinks(lambda: frontier.losses)
    while not over.is_set():
        pairs = [(lease, Complete(*known.split(links_of(lease)))) for lease in frontier.claim(5, wait=0.05)]
        if pairs:
            outcome = frontier.settle(pairs)
            known.note([link for _, verdict in pairs for link in verdict.links], outcome.links)
            if outcome.lost:
                known.forget()
            done.update(lease.url for lease, _ in pairs if lease not in outcome.lost + outcome.postponed)
        elif frontier.finished():
            return


def lose_moments(server, shards, over):
    dice = random.Random(5)
    with server.client() as client:
        while not over.is_set():
            root = dice.choice(shards).root
            kept = client.eval(DUMP, 0, root)
            time.sleep(dice.uniform(0, 0.5))
            client.eval(PUT_BACK, 0, root, *kept)
            time.sleep(dice.uniform(0, 0.3))


@pytest.mark.long
@pytest.mark.parametrize("capacity", [100_000, 2100], ids=["roomy", "full"])
def test_no_page_is_missing_after_many_lost_moments(own_server, crawl, capacity):
    server, done = own_server(), set()
    losing, working = threading.Event(), threading.Event()
    settings = {"crawl": crawl, "shards": 3, "politeness": AT_ONCE, "lease": 3, "capacity": capacity}
    frontiers = [SyncFrontier.open(server.url, **settings) for _ in range(2)]
    frontiers[0].enqueue(url(0))
    with ThreadPoolExecutor(7) as threads:
        loser = threads.submit(lose_moments, server, frontiers[0].layout.shards, losing)
        workers = [threads.submit(work, frontiers[number % 2], done, working) for number in range(6)]
        try:
            time.sleep(12)  # some twenty moments are lost
            losing.set()
            loser.result(100)
            for worker in workers:
                worker.result(120)
        finally:
            losing.set()
            working.set()
    assert done == {url(number) for number in range(PAGES)}
    assert frontiers[0].admin.stats().losses
    assert frontiers[0].admin.fsck().sound
    for frontier in frontiers:
        frontier.close()
