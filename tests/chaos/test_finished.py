"""Finished is never said too early, however fast work moves from shard to shard."""

from __future__ import annotations

import asyncio
import threading

import pytest

from silkline import Frontier, Politeness, SyncFrontier
from silkline.frontier.admin_verbs.stats import _nothing_left, _snapshots

AT_ONCE = Politeness(delay=0, concurrency=1000)
SHARDS, MOVES = 8, 400


def page(number):
    return f"https://h{number * 7 % 31}.example/{number}"


@pytest.fixture
def fooled():
    """How often one look alone would have been wrong."""
    return []


class Poller(threading.Thread):
    """Asks all the time, one shard after the other, as a plain client does; notes whether work was left."""

    def __init__(self, frontier, ended):
        super().__init__()
        self.frontier, self.ended = frontier, ended
        self.looks = self.fooled = self.wrong = 0

    def run(self):
        while True:
            one_look = _nothing_left(self.frontier.layout, self.frontier._session.run(_snapshots(self.frontier.layout)))
            self.fooled += one_look and not self.ended.is_set()
            finished = self.frontier.finished()
            self.looks += 1
            self.wrong += finished and not self.ended.is_set()
            if finished and self.ended.is_set():
                return


async def test_a_single_page_that_moves_between_shards_is_never_overlooked(valkey, crawl, here, capsys):
    ended = threading.Event()
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=AT_ONCE, shards=SHARDS) as worker:
        await worker.enqueue(page(0))
        pollers = [Poller(here(), ended) for _ in range(2)]
        for poller in pollers:
            poller.start()
        for number in range(MOVES):
            [lease] = await worker.claim(1, wait=20)
            assert lease.url == page(number)
            if number + 1 == MOVES:
                ended.set()  # from here on the answer may be yes
            await worker.complete(lease, [page(number + 1)] if number + 1 < MOVES else [])
        for poller in pollers:
            await asyncio.to_thread(poller.join, 100)
            assert not poller.is_alive()
            assert poller.wrong == 0
        with capsys.disabled():
            looks, fooled = sum(p.looks for p in pollers), sum(p.fooled for p in pollers)
            print(f"\n  {looks} looks, {fooled} of which would have been fooled, had they been one look only")


def test_a_page_that_waits_in_any_place_keeps_the_crawl_open(here, tmp_path):
    frontier: SyncFrontier = here(politeness=AT_ONCE, shards=3, overflow=tmp_path / "overflow", capacity=3)
    assert frontier.finished()
    frontier.enqueue("https://a.example/")
    assert not frontier.finished()  # ready
    [lease] = frontier.claim(1)
    assert not frontier.finished()  # leased
    frontier.retry(lease, after=0.05)
    assert not frontier.finished()  # delayed
    [lease] = frontier.claim(1, wait=60)
    frontier.complete(lease, ["https://a.example/1", "https://a.example/2"])
    for lease in frontier.claim(2):
        frontier.complete(lease)
    assert frontier.admin.stats().pending == 0
    assert not frontier.finished()  # on disk
    while not frontier.finished():
        for lease in frontier.claim(2, wait=0.1):
            frontier.complete(lease)
    assert frontier.admin.stats().done == 3
