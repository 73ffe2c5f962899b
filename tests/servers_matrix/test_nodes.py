"""Nodes of a cluster that are slow, silent, replaced or misleading, and what calls to the others do meanwhile."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from silkline import Admission, Frontier, Politeness, SyncFrontier
from silkline.errors import StoreUnavailable
from tests.chaos.subject import crawl_all, open_subject
from tests.chaos.test_one_node_down import node_of
from tests.servers_matrix.topologies import SLOTS, Cluster, wait_until

AT_ONCE = Politeness(delay=0, concurrency=1000)
SHARDS = 12
HOSTS = [f"h{number}.example" for number in range(2000)]


def hosts_of(cluster, layout, node):
    return [host for host in HOSTS if node_of(cluster, layout, f"https://{host}/") is node]


def connections_received(node):
    with node.client() as client:
        return client.info("stats")["total_connections_received"]


async def ended(call):
    """What a call returned, or its error."""
    try:
        return await call
    except StoreUnavailable as error:
        return error


async def patiently(act):
    """Until it works; not for ever."""
    for _ in range(60):
        if not isinstance(answer := await ended(act()), StoreUnavailable):
            return answer
        await asyncio.sleep(0.1)
    raise answer


async def test_calls_that_wait_for_a_silent_node_do_not_each_wait_for_its_timeout(cluster, crawl, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.1)
    victim = cluster.nodes[1]
    url = f"{cluster.url}?socket_timeout=1"
    async with await Frontier.open(url, crawl=crawl, shards=SHARDS, politeness=AT_ONCE) as frontier:
        hosts = hosts_of(cluster, frontier.layout, victim)[:400]
        await frontier.enqueue(f"https://{hosts[0]}/first")
        before = connections_received(victim)
        victim.freeze()
        try:
            answers = await asyncio.gather(*(ended(frontier.enqueue(f"https://{host}/")) for host in hosts))
        finally:
            victim.thaw()
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
        assert connections_received(victim) - before < 15  # each call that meets a timeout costs a connection
    wait_until(cluster._all_agree, "the cluster is whole again")


def test_threads_that_wait_for_a_silent_node_do_not_each_wait_for_its_timeout(cluster, crawl, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.1)
    victim = cluster.nodes[1]
    url = f"{cluster.url}?socket_timeout=1"

    def offer(host):
        with pytest.raises(StoreUnavailable):
            frontier.enqueue(f"https://{host}/")

    with SyncFrontier.open(url, crawl=crawl, shards=SHARDS, politeness=AT_ONCE) as frontier:
        hosts = hosts_of(cluster, frontier.layout, victim)[:60]
        frontier.enqueue(f"https://{hosts[0]}/first")
        before = connections_received(victim)
        victim.freeze()
        try:
            with ThreadPoolExecutor(60) as pool:
                list(pool.map(offer, hosts))
        finally:
            victim.thaw()
        assert connections_received(victim) - before < 15
    wait_until(cluster._all_agree, "the cluster is whole again")


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_while_one_call_asks_a_silent_node_where_the_slots_are_others_continue(cluster, crawl, kind):
    frontier = await open_subject(kind, url=f"{cluster.url}?socket_timeout=10", crawl=crawl, shards=SHARDS)
    nodes = getattr(frontier, "frontier", frontier)._connection._nodes
    layout = getattr(frontier, "frontier", frontier).layout
    first = nodes._candidates()[0]
    victim = next(node for node in cluster.nodes if node.port == first.port)
    others = [node for node in cluster.nodes if node is not victim]
    hosts = [hosts_of(cluster, layout, node)[:6] for node in others]
    victim.freeze()
    try:
        nodes.mark_stale(at_once=True)
        asking = asyncio.create_task(frontier.enqueue(f"https://{hosts[0][0]}/"))
        await asyncio.sleep(0.2)
        assert not asking.done()
        for host in (*hosts[0][1:], *hosts[1]):
            assert await frontier.enqueue(f"https://{host}/") == [Admission.ADDED]
        assert not asking.done(), "the others did not wait for it"
        assert await asking == [Admission.ADDED]
    finally:
        victim.thaw()
        await frontier.close()
    wait_until(cluster._all_agree, "the cluster is whole again")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("shards", [1, SHARDS])
async def test_a_cancelled_stream_confuses_nobody(cluster, crawl, seed, shards):
    """More than one command's worth of requests go over a connection of their own."""
    dice, rounds = random.Random(seed), 40
    async with await Frontier.open(cluster.url, crawl=crawl, politeness=AT_ONCE, shards=shards) as frontier:
        for number in range(rounds):
            urls = [f"https://h{host}.example/{number}" for host in range(800)]
            offering = asyncio.create_task(frontier.enqueue(urls))
            looking = asyncio.create_task(frontier.internal.memory())
            for _ in range(dice.randrange(60)):
                await asyncio.sleep(0)
            offering.cancel()
            looking.cancel()
            others = [frontier.enqueue([f"https://x{i}.example/{number}"] * (i + 1)) for i in range(3)]
            for i, answers in enumerate(await asyncio.gather(*others)):
                assert answers == [Admission.ADDED] + [Admission.SEEN] * i
            await asyncio.wait([offering, looking])
            assert set(await frontier.enqueue(urls)) <= {Admission.ADDED, Admission.SEEN}
        stats = await frontier.admin.stats()
        assert (stats.conserved, stats.accepted) == (True, 803 * rounds)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_node_that_comes_back_at_another_address_is_found(crawl, kind, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.3)
    urls = [f"https://{host}/" for host in HOSTS[:60]]
    with Cluster(appendonly="yes", appendfsync="always") as cluster:
        frontier = await open_subject(kind, url=cluster.url, crawl=crawl, shards=SHARDS, politeness=AT_ONCE)
        await frontier.enqueue(urls)
        for victim in cluster.nodes:  # that of the address too
            victim.kill()
            victim.port = victim.bus_port = 0
            victim.start()
            wait_until(cluster._all_agree, "the cluster is whole again")
            await patiently(frontier.admin.stats)
        monkeypatch.undo()  # from now on calls may take their time
        assert sorted(await crawl_all(frontier)) == sorted(urls)
        nodes = getattr(frontier, "frontier", frontier)._connection._nodes
        assert {address.port for address in nodes.primaries} == {node.port for node in cluster.nodes}
        async with asyncio.timeout(100):  # clients of addresses that are gone are closed, once their calls have failed
            while len(nodes._nodes) != 3:
                await frontier.admin.stats()
                await asyncio.sleep(0.05)
        await frontier.close()


async def test_nodes_that_do_not_know_their_own_host_are_reached(crawl):
    urls = [f"https://{host}/" for host in HOSTS[:60]]
    with Cluster("redis-7.0", cluster_preferred_endpoint_type="unknown-endpoint") as cluster:
        async with await Frontier.open(cluster.url, crawl=crawl, shards=SHARDS, politeness=AT_ONCE) as frontier:
            await frontier.enqueue(urls)
            nodes = frontier._connection._nodes
            nodes._owners = dict.fromkeys(range(SLOTS), nodes.primaries[0])
            assert sorted(await crawl_all(frontier)) == sorted(urls)  # after many redirects


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_replica_that_was_promoted_is_found(crawl, kind, caplog, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.2)
    urls = [f"https://{host}/" for host in HOSTS[:60]]
    with Cluster() as cluster:
        victim = cluster.nodes[0]  # that of the address
        replica = cluster.add_replica(victim)
        frontier = await open_subject(kind, url=cluster.url, crawl=crawl, shards=SHARDS, politeness=AT_ONCE, lease=60)
        try:
            await frontier.enqueue(urls)
            held = await frontier.claim(30)
            with victim.client() as client:
                assert client.wait(1, 20_000) == 1
            victim.kill()
            stats = await patiently(frontier.admin.stats)
            monkeypatch.undo()  # from now on calls may take their time
            assert (stats.leased, stats.ready) == (30, 30)
            for lease in held:
                await frontier.complete(lease)
            assert sorted(await crawl_all(frontier)) == sorted(set(urls) - {lease.url for lease in held})
            nodes = getattr(frontier, "frontier", frontier)._connection._nodes
            assert replica.port in {address.port for address in nodes.primaries}
            assert len(nodes._nodes) == 3
            assert f"Redis at 127.0.0.1:{victim.port} is no longer waited for" in caplog.text
            waiting = asyncio.create_task(frontier.claim(1, wait=60))
            await asyncio.sleep(0.2)
            await frontier.enqueue("https://late.example/")
            [lease] = await asyncio.wait_for(waiting, 100)  # whichever node it listens to
            await frontier.complete(lease)
        finally:
            await frontier.close()
            replica.remove()


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_node_that_was_removed_is_not_asked_where_the_slots_are(crawl, kind):
    urls = [f"https://{host}/" for host in HOSTS[:60]]
    with Cluster(cluster_allow_replica_migration="no") as cluster:  # or a node without slots becomes a replica
        frontier = await open_subject(kind, url=cluster.url, crawl=crawl, shards=SHARDS, politeness=AT_ONCE)
        nodes = getattr(frontier, "frontier", frontier)._connection._nodes
        first = nodes._candidates()[0]
        leaver = next(node for node in cluster.nodes if node.port == first.port)
        heir = next(node for node in cluster.nodes if node is not leaver)
        cluster.leave(leaver, heir)
        assert await frontier.enqueue(urls) == [Admission.ADDED] * len(urls)
        assert first not in nodes.primaries
        await frontier.close()


def listeners(node):
    with node.client() as client:
        return sum(int(one["sub"]) > 0 for one in client.client_list())


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_claim_that_waits_listens_to_another_node_when_its_own_is_silent(cluster, crawl, kind, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.2)
    url = f"{cluster.url}?socket_timeout=1"
    frontier = await open_subject(kind, url=url, crawl=crawl, shards=SHARDS, politeness=AT_ONCE)
    producer = await Frontier.open(url, crawl=crawl)
    waiting = asyncio.create_task(frontier.claim(1, wait=60))
    try:
        await asyncio.to_thread(wait_until, lambda: any(map(listeners, cluster.nodes)), "it listens")
        victim = next(node for node in cluster.nodes if listeners(node))
        others = [node for node in cluster.nodes if node is not victim]
        victim.freeze()
        try:
            await asyncio.to_thread(wait_until, lambda: any(map(listeners, others)), "it listens elsewhere", 30)
            host = hosts_of(cluster, producer.layout, others[0])[0]
            assert await producer.enqueue(f"https://{host}/") == [Admission.ADDED]
            [lease] = await asyncio.wait_for(waiting, 100)
            assert lease.host == host
        finally:
            victim.thaw()
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await frontier.close()
        await producer.close()
    wait_until(cluster._all_agree, "the cluster is whole again")
