"""Walks over the keys of a cluster whose nodes change meanwhile: every key that is there all the time is found."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Politeness
from silkline.frontier.admin_verbs.fsck import check_crawl, scan_keys
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.transport import connection
from silkline.frontier.transport.command import Scan
from silkline.frontier.transport.sync import connection as sync_connection
from tests.chaos.subject import SyncSubject, open_subject
from tests.servers_matrix.topologies import Cluster

AT_ONCE = Politeness(delay=0, concurrency=1000)
SHARDS = 24
URLS = [f"https://h{number}.example/" for number in range(200)]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.scanning.MOST", 10)


@pytest.fixture
def own_cluster():
    with Cluster(cluster_allow_replica_migration="no") as cluster:  # or a node without slots becomes a replica
        yield cluster


def interrupted(flow, after, act, walk=""):
    """A flow in the middle of which something happens: after so many steps of the walk for such keys."""
    answer = None
    while True:
        try:
            effect = flow.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = yield effect
        after -= isinstance(effect, Scan) and walk in effect.match
        if after == 0:
            act()
            after = -1


async def drive(frontier, flow):
    if isinstance(frontier, SyncSubject):
        return await asyncio.to_thread(sync_connection.drive, frontier.frontier._connection, flow)
    return await connection.drive(frontier._connection, flow)


def keys_of(crawl, *nodes):
    found = set()
    for node in nodes:
        with node.client() as client:
            found.update(client.scan_iter(f"silkline:{{{crawl}:*", count=1000))
    return found


def steps_on(node):
    """How many replies a walk over all keys of a node takes, or a few less."""
    with node.client() as client:
        return client.dbsize() // 10


def in_order(cluster):
    """The nodes, as a walk visits them."""
    return sorted(cluster.nodes, key=lambda node: str(node.port))


@pytest.fixture
async def opened(crawl):
    """Opens frontiers that hold some requests."""
    frontiers = []

    async def open_(kind, url, shards=SHARDS):
        frontiers.append(await open_subject(kind, url=url, crawl=crawl, shards=shards, politeness=AT_ONCE))
        await frontiers[-1].enqueue(URLS)
        return frontiers[-1]

    yield open_
    for frontier in frontiers:
        await frontier.close()


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize(
    ("leaver", "heir", "stopped"), [(0, 1, False), (1, 0, False), (1, 0, True), (2, 0, False), (2, 0, True)]
)
async def test_a_walk_finds_all_keys_though_a_node_leaves(own_cluster, crawl, opened, kind, leaver, heir, stopped):
    frontier = await opened(kind, own_cluster.url)
    nodes, there = in_order(own_cluster), keys_of(crawl, *own_cluster.nodes)

    def leave():
        own_cluster.leave(nodes[leaver], nodes[heir])
        if stopped:
            nodes[leaver].stop()

    walk = interrupted(scan_keys(f"silkline:{{{crawl}:*"), steps_on(nodes[0]) + 5, leave)
    assert await drive(frontier, walk) >= there


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_walk_finds_all_keys_though_a_replica_takes_over(own_cluster, crawl, opened, kind):
    frontier = await opened(kind, own_cluster.url)
    victim = in_order(own_cluster)[0]
    replica, there = own_cluster.add_replica(victim), keys_of(crawl, *own_cluster.nodes)
    walk = interrupted(scan_keys(f"silkline:{{{crawl}:*"), steps_on(victim) // 2, victim.kill)
    try:
        assert await drive(frontier, walk) >= there
    finally:
        replica.remove()


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_walk_finds_all_keys_though_the_server_starts_again(own_server, crawl, opened, kind):
    """Its cursors mean nothing to its next process."""
    server = own_server(appendonly="yes", appendfsync="always")
    frontier = await opened(kind, server.url, shards=1)
    there = keys_of(crawl, server)

    def restart():
        server.stop()
        server.start()

    walk = interrupted(scan_keys(f"silkline:{{{crawl}:*"), steps_on(server) // 2, restart)
    assert await drive(frontier, walk) >= there


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_fsck_reads_every_queue_once_though_a_node_leaves(own_cluster, crawl, opened, kind):
    frontier = await opened(kind, own_cluster.url)
    nodes = in_order(own_cluster)

    def leave():
        own_cluster.leave(nodes[2], nodes[0])

    with own_cluster.node_with(CrawlKeys(crawl).settings).client() as client:
        client.delete(CrawlKeys(crawl).settings)
    check = interrupted(check_crawl(CrawlKeys(crawl)), steps_on(nodes[0]) + 5, leave, walk=":queue:")
    found = await drive(frontier, check)
    assert [(damage.kind, damage.shard) for damage in found.damages] == [("settings", 0)]
    assert (found.hosts, found.queued) == (len(URLS), len(URLS))
