"""A cluster of three real nodes."""

from __future__ import annotations

import asyncio
import math

import pytest

from silkline import Admission, Budget, Frontier, Politeness, SyncFrontier
from silkline.errors import ConfigError, StoreUnavailable
from tests.chaos.subject import crawl_all, open_subject
from tests.servers_matrix.test_every_verb import every_verb
from tests.servers_matrix.topologies import wait_until

AT_ONCE = Politeness(delay=0, concurrency=1000)
URLS = [f"https://h{number}.example/" for number in range(60)]


@pytest.fixture(params=["async", "sync"])
def kind(request):
    return request.param


async def test_every_verb_works(cluster, crawl):
    async with await Frontier.open(cluster.url, crawl=crawl, politeness=AT_ONCE, shards=16) as frontier:
        await every_verb(frontier)


async def test_links_go_to_other_nodes_and_finished_waits_for_them(cluster, crawl, kind):
    frontier = await open_subject(kind, url=cluster.url, crawl=crawl, politeness=AT_ONCE, shards=16)
    await frontier.enqueue(URLS[0])
    links = {url: URLS[number + 1 : number + 4] for number, url in enumerate(URLS)}
    assert sorted(await crawl_all(frontier, links)) == sorted(URLS)
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert stats.done == len(URLS)
    await frontier.close()


async def test_a_budget_is_spent_to_the_last_page_and_not_beyond(cluster, crawl):
    settings = {"crawl": crawl, "politeness": AT_ONCE, "shards": 16, "budget": Budget(pages=37)}
    workers = [await Frontier.open(cluster.url, **settings) for _ in range(3)]
    await workers[0].enqueue(URLS)

    async def work(frontier):
        while not await frontier.finished():
            for lease in await frontier.claim(3, wait=0.1):
                await frontier.complete(lease)

    await asyncio.wait_for(asyncio.gather(*map(work, workers)), 100)
    stats = await workers[0].admin.stats()
    assert (stats.done, stats.leased, stats.ready) == (37, 0, 23)
    for worker in workers:
        await worker.close()


async def test_a_waiting_claim_is_called_from_any_node(cluster, crawl, kind, monkeypatch):
    """No client looks of its own accord."""
    monkeypatch.setattr("silkline.frontier.transport.notifier.SAFETY_POLL", math.inf)
    frontier = await open_subject(kind, url=cluster.url, crawl=crawl, politeness=AT_ONCE, shards=16)
    producer = await open_subject(kind, url=cluster.url, crawl=crawl)
    for url in URLS[:12]:
        waiting = asyncio.create_task(frontier.claim(1, wait=60))
        await asyncio.sleep(0.05)  # it waits, as a rule; if not, it finds the page at once
        await producer.enqueue(url)
        [lease] = await waiting
        await frontier.complete(lease)
    await frontier.close()
    await producer.close()


async def test_while_a_node_is_down_nothing_is_lost_and_the_others_continue(cluster, crawl, kind, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.3)
    frontier = await open_subject(kind, url=cluster.url, crawl=crawl, politeness=AT_ONCE, shards=16, lease=60)
    await frontier.enqueue(URLS)
    victim = cluster.nodes[1]
    victim.kill()
    done, failures = [], 0
    while len(done) < 20:
        try:
            leases = await asyncio.wait_for(frontier.claim(5), 100)
        except StoreUnavailable:
            failures += 1
            assert failures < 30, done
            continue
        for lease in leases:
            await frontier.complete(lease)
            done.append(lease.url)
    victim.start()
    wait_until(cluster._all_agree, "the cluster is whole again")
    monkeypatch.undo()  # from now on calls may take their time
    done += await crawl_all(frontier, patience=100)
    assert sorted(done) == sorted(URLS)
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert stats.rescued == 0
    assert await frontier.enqueue(URLS[0]) == [Admission.SEEN]
    await frontier.close()


def test_a_cluster_gets_64_shards_unless_allowed(cluster, crawl):
    with SyncFrontier.open(cluster.url, crawl=crawl) as frontier:
        assert frontier.admin.stats().shards == 64


async def test_a_plain_address_of_a_cluster_is_refused(cluster, crawl, kind):
    with pytest.raises(ConfigError, match=r"redis\+cluster://"):
        await open_subject(kind, url=f"redis://127.0.0.1:{cluster.nodes[0].port}", crawl=crawl, shards=64)
