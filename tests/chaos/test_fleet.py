"""Many processes at once, some of them killed: everything is crawled, and every host is treated gently."""

from __future__ import annotations

import itertools
import random
import time
from collections import defaultdict

import pytest

from silkline import Politeness

HOSTS, PAGES = 120, 6
DELAY, CAP = 0.03, 2
LEASE = 1.0


def read_log(path):
    """Per host: when its leases began on the server, and from when to when they were held, in order."""
    begun, held = defaultdict(list), defaultdict(list)
    for line in path.read_text().splitlines():
        host, start, since, until = line.split()
        begun[host].append(int(start))
        held[host].append((float(since), float(until)))
    return {host: sorted(times) for host, times in begun.items()}, held


def most_at_once(spans):
    changes = sorted(
        [(since, 1) for since, _ in spans] + [(until, -1) for _, until in spans], key=lambda c: (c[0], c[1])
    )
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_fleet_that_loses_workers_all_the_time_crawls_everything_politely(here, crawler, tmp_path, seed):
    dice = random.Random(seed)
    frontier = here(politeness=Politeness(delay=DELAY, concurrency=CAP), lease=LEASE)
    frontier.enqueue([f"https://h{host}.example/0" for host in range(HOSTS)])

    def start():
        settings = {"hosts": HOSTS, "pages": PAGES, "lease": LEASE, "log": str(tmp_path / "log")}
        return crawler(seed=dice.random(), asynchronous=dice.random() < 0.5, **settings)

    workers = [start() for _ in range(4)]
    kills, next_kill, deadline = 0, time.monotonic() + 0.6, time.monotonic() + 100
    while not frontier.finished():
        assert frontier.admin.stats().conserved
        assert time.monotonic() < deadline, frontier.admin.stats()
        if kills < 8 and time.monotonic() > next_kill:
            workers[dice.randrange(4)].kill()
            workers = [worker if worker.alive else start() for worker in workers]
            kills, next_kill = kills + 1, time.monotonic() + dice.uniform(0.05, 0.4)
    for worker in workers:
        assert worker.process.wait(100) == 0

    stats = frontier.admin.stats()
    assert stats.conserved
    assert stats.accepted == stats.seen == stats.done + stats.dead == HOSTS * PAGES
    assert all(letter.reason == "crashed" and letter.crashes == 3 for letter in frontier.admin.dead())
    begun, held = read_log(tmp_path / "log")
    gaps = [later - earlier for times in begun.values() for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= DELAY * 1000
    assert max(most_at_once(spans) for spans in held.values()) <= CAP
    print(f"{kills} killed, {stats.rescued} rescued, least gap {min(gaps)} ms")
