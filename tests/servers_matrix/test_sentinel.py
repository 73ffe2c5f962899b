"""A primary that dies, and a sentinel that makes its replica the primary."""

from __future__ import annotations

import asyncio
import json
import math
import time

import pytest

from silkline import Admission, Politeness, SyncFrontier
from silkline.errors import LeaseLost, StoreUnavailable
from silkline.testing import LocalSite
from tests.chaos.subject import crawl_all, open_subject
from tests.cli.processes import Running
from tests.cli.sites import write_crawl
from tests.servers_matrix.topologies import Watched, wait_until

AT_ONCE = Politeness(delay=0, concurrency=1000)
URLS = [f"https://h{number}.example/" for number in range(20)]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_failover_loses_nothing_that_the_replica_had(crawl, kind, monkeypatch):
    """And the bell rings on the new primary: no client looks of its own accord."""
    monkeypatch.setattr("silkline.frontier.transport.notifier.SAFETY_POLL", math.inf)
    with Watched() as watched:
        frontier = await open_subject(kind, url=watched.url, crawl=crawl, politeness=AT_ONCE, shards=2)
        producer = await open_subject(kind, url=watched.url, crawl=crawl)
        await frontier.enqueue(URLS)
        held = await frontier.claim(5)
        watched.wait_for_replica()
        watched.primary.kill()
        await asyncio.to_thread(watched.wait_for_failover)
        for lease in held:
            await frontier.complete(lease)
        assert sorted(await crawl_all(frontier)) == sorted(set(URLS) - {lease.url for lease in held})
        waiting = asyncio.create_task(frontier.claim(1, wait=60))
        await asyncio.sleep(0.2)  # it waits, as a rule; if not, it finds the page at once
        await producer.enqueue("https://late.example/")
        [lease] = await waiting
        await frontier.complete(lease)
        stats = await frontier.admin.stats()
        assert stats.conserved
        assert stats.done == len(URLS) + 1
        await frontier.close()
        await producer.close()


async def test_what_the_replica_had_not_got_yet_can_be_enqueued_again(crawl):
    with Watched() as watched:
        frontier = await open_subject("async", url=watched.url, crawl=crawl, politeness=AT_ONCE, lease=1)
        await frontier.enqueue(URLS[:10])
        watched.wait_for_replica()
        watched.cut_replica_off()
        await frontier.enqueue(URLS[10:])
        held = await frontier.claim(20)
        watched.primary.kill()
        watched.replica.thaw()
        await asyncio.to_thread(watched.wait_for_failover)
        answers = await frontier.enqueue(URLS)
        assert answers[:10] == [Admission.SEEN] * 10
        for lease in held:
            with pytest.raises(LeaseLost):
                await frontier.complete(lease)
        assert sorted(await crawl_all(frontier)) == sorted(URLS)
        assert (await frontier.admin.stats()).conserved
        await frontier.close()


async def test_a_service_that_nobody_watches(crawl):
    with Watched() as watched, pytest.raises(StoreUnavailable, match="another"):
        await open_subject("async", url=watched.url.replace("/main/", "/another/"), crawl=crawl)


CHAINS, LENGTH = 20, 150
BEHIND = 1.0
"""Seconds of writes that the replica lacks."""


def chains():
    """A site of chains: each page is linked by the one before it, and by no other."""

    def answer(visit):
        _, chain, number = visit.path.split("/")
        following = f"<a href=/{chain}/{int(number) + 1}>next</a>" if int(number) + 1 < LENGTH else ""
        return following + "".join(f"<a href=/{one}/0>{one}</a>" for one in range(CHAINS))

    return {"/*": answer}


def lose_a_second(watched, site):
    """The primary dies, and its replica is a second behind. Returns how many pages were fetched in that second."""
    watched.wait_for_replica()
    watched.cut_replica_off()
    before = len(site.visits)
    time.sleep(BEHIND)
    watched.primary.kill()
    fetched = len(site.visits) - before
    watched.replica.thaw()
    watched.wait_for_failover()
    watched.restart_as_replica()
    return fetched


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("time_", range(2))
def test_a_run_outlives_two_failovers_that_cost_a_second_of_writes(crawl, tmp_path, time_):
    paths = {f"{chain}/{number}" for chain in range(CHAINS) for number in range(LENGTH)}
    with Watched(down_after=3000) as watched, LocalSite(chains(), latency=0.05) as site:
        file = write_crawl(tmp_path / "pages.py", crawl, [site.at("/0/0")], concurrency=CHAINS)
        words = ("run", file, "-o", "items.jsonl", "--workers", 2, "--lease", 3, "--redis", watched.url)
        run, fetched = Running(*words, cwd=tmp_path), []
        try:
            for number in (1, 2):
                wait_until(lambda: len(site.visits) > 700 * number, "the crawl is going on", 120)  # noqa: B023
                fetched.append(lose_a_second(watched, site))
            code = run.end(400)
        finally:
            run.close()
        assert watched.failovers == 2
        with SyncFrontier.open(watched.url, crawl=crawl, create=False) as frontier:
            stats = frontier.admin.stats()
    items = [json.loads(line)["path"] for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    print(f"{fetched} pages in the lost seconds, {len(items)} items, {len(paths - set(items))} missing, {stats}")
    assert code == 0, run.err
    assert min(fetched) > 20
    assert paths - set(items) == set()
    assert (stats.done, stats.dead, stats.ready, stats.leased, stats.conserved) == (len(paths), 0, 0, 0, True)
    assert stats.losses >= 1  # within half a minute, two count as one
    assert "lost its last writes" in run.err
