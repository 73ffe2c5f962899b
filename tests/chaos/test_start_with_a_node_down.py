"""A cluster of three real nodes, one of which is down before a client opens a crawl."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter

import pytest

from silkline import Admission, Crawl, Frontier, Politeness, SyncFrontier, Worker
from silkline.errors import PartlyUnavailable, StoreUnavailable
from silkline.frontier.store.keys import CRAWLS, CrawlKeys
from silkline.testing import LocalSite
from silkline.worker.crawl.crawl import FetchOptions
from silkline.worker.options import WorkerOptions
from tests.chaos.subject import crawl_all, open_subject
from tests.chaos.test_one_node_down import node_of
from tests.servers_matrix.topologies import wait_until

AT_ONCE = Politeness(delay=0, concurrency=100)
SHARDS = 12
URLS = [f"https://h{number}.example/" for number in range(60)]


@pytest.fixture(autouse=True)
def whole_again(cluster):
    yield
    for node in cluster.nodes:
        if node.process.poll() is not None:
            node.start()
    wait_until(cluster._all_agree, "the cluster is whole again")


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.5)


@pytest.fixture
def apart(cluster, crawl):
    """The name of a crawl whose settings and first shard are on other nodes than the names of all crawls."""
    candidates = (CrawlKeys(f"{crawl}-{number}") for number in itertools.count())
    register = cluster.node_with(CRAWLS)
    return next(
        keys.crawl
        for keys in candidates
        if register not in (cluster.node_with(keys.settings), cluster.node_with(keys.shard(0).ledger))
    )


def address_of(*nodes):
    return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)


def on_node(cluster, layout, victim):
    return {url for url in URLS if node_of(cluster, layout, url) is victim}


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_crawl_is_opened_while_a_node_without_its_settings_is_down(cluster, apart, kind, caplog):
    with SyncFrontier.open(cluster.url, crawl=apart, shards=SHARDS, politeness=AT_ONCE) as before:
        before.enqueue(URLS)
    home, victim = cluster.node_with(CrawlKeys(apart).settings), cluster.node_with(CRAWLS)
    sick = on_node(cluster, before.layout, victim)
    victim.kill()
    with caplog.at_level(logging.WARNING):
        frontier = await open_subject(kind, url=address_of(victim, home), crawl=apart, lease=60)
    [warning] = [record for record in caplog.records if "shards of the crawl" in record.message]
    assert f"node 127.0.0.1:{victim.port} does not reply" in warning.message
    leases = await frontier.claim(len(URLS))
    assert {lease.url for lease in leases} == set(URLS) - sick
    assert await frontier.extend(leases) == []
    with pytest.raises(PartlyUnavailable):
        await frontier.complete(leases[0], sorted(sick))
    victim.start()
    wait_until(cluster._all_agree, "the cluster is whole again")
    for lease in leases:
        await until_reached(frontier.complete, lease)
    assert set(await crawl_all(frontier)) == sick
    await frontier.close()


async def until_reached(act, *words):
    for _ in range(100):
        try:
            return await act(*words)
        except StoreUnavailable:
            await asyncio.sleep(0.1)
    return await act(*words)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_the_node_with_the_settings_is_named_if_it_is_the_one(cluster, crawl, kind):
    with SyncFrontier.open(cluster.url, crawl=crawl, shards=SHARDS) as frontier:
        key = frontier.layout.keys.settings
    victim = cluster.node_with(key)
    others = [node for node in cluster.nodes if node is not victim]
    victim.kill()
    with pytest.raises(StoreUnavailable) as caught:
        await open_subject(kind, url=address_of(*others), crawl=crawl, create=False)
    assert f"node 127.0.0.1:{victim.port} does not reply" in str(caught.value)
    assert f"To open the crawl '{crawl}', the node that has its settings (key {key}) must reply" in str(caught.value)


async def test_a_crawl_of_which_no_shard_can_be_reached_is_not_opened(cluster, crawl):
    candidates = (CrawlKeys(f"{crawl}-{number}") for number in itertools.count())
    places = ((keys, *map(cluster.node_with, (keys.settings, keys.shard(0).ledger))) for keys in candidates)
    keys, home, victim = next(place for place in places if place[1] is not place[2])
    SyncFrontier.open(cluster.url, crawl=keys.crawl, shards=1).close()
    victim.kill()
    with pytest.raises(StoreUnavailable, match=f"node 127.0.0.1:{victim.port} does not reply"):
        await Frontier.open(address_of(home), crawl=keys.crawl)


async def test_a_new_crawl_needs_all_nodes(cluster, apart):
    home, victim = cluster.node_with(CrawlKeys(apart).settings), cluster.node_with(CRAWLS)
    victim.kill()
    with pytest.raises(StoreUnavailable, match=f"node 127.0.0.1:{victim.port} does not reply"):
        await Frontier.open(address_of(home, victim), crawl=apart, shards=SHARDS)
    victim.start()
    wait_until(cluster._all_agree, "the cluster is whole again")
    async with await Frontier.open(cluster.url, crawl=apart, shards=SHARDS) as frontier:
        assert await frontier.enqueue(URLS[0]) == [Admission.ADDED]


async def test_a_new_crawl_must_be_listed(cluster, apart):
    """Though all that is its own could be created."""
    victim = cluster.node_with(CRAWLS)
    victim.kill()
    with pytest.raises(StoreUnavailable, match=f"node 127.0.0.1:{victim.port} does not reply"):
        await Frontier.open(address_of(*cluster.nodes), crawl=apart, shards=1)


async def test_a_worker_keeps_its_leases_though_the_node_with_the_settings_is_down(cluster, crawl):
    """Its heartbeat, which has connections of its own, begins later."""
    with LocalSite({"/": "page"}, hosts=30, latency=8.0) as site:
        urls = [site.at("/", number) for number in range(30)]
        crawled = Crawl(crawl, urls, politeness=AT_ONCE, fetching=FetchOptions(allow_private=True, obey_robots=False))

        @crawled.handler
        def page(page):
            yield {"url": page.url}

        async with await Frontier.open(cluster.url, crawl=crawl, shards=SHARDS, **crawled.arguments) as frontier:
            await frontier.enqueue(urls)
            victim = cluster.node_with(frontier.layout.keys.settings)
            healthy = {url for url in urls if node_of(cluster, frontier.layout, url) is not victim}
            victim.kill()
            worker = Worker(crawled, frontier, options=WorkerOptions(concurrency=30, lease=5))
            task = asyncio.create_task(worker.run())
            done = lambda: worker.counters.ended + worker.counters.lost >= len(healthy)  # noqa: E731
            await asyncio.to_thread(wait_until, done, "the pages of the other nodes have ended")
            assert Counter(f"http://{visit.host}/" for visit in site.visits) == dict.fromkeys(healthy, 1)
            await asyncio.to_thread(victim.start)
            await asyncio.to_thread(wait_until, cluster._all_agree, "the cluster is whole again")
            await asyncio.wait_for(task, 100)
            stats = await frontier.admin.stats()
            assert (stats.done, stats.rescued, stats.conserved) == (30, 0, True)
        assert max(Counter(visit.host for visit in site.visits).values()) == 1
