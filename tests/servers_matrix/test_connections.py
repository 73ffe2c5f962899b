"""How many connections a client has, what they are called, and what calls do that find none free."""

from __future__ import annotations

import asyncio
import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager

import pytest
import redis

from silkline import Admission, Crawl, Frontier, Politeness, SyncFrontier
from silkline.errors import ConfigError
from silkline.frontier.transport.calls import MOST_NAMED
from silkline.frontier.transport.clients import CALL_CONNECTIONS, connection_name
from silkline.testing import LocalSite
from silkline.worker.crawl.crawl import FetchOptions
from silkline.worker.options import WorkerOptions
from silkline.worker.process.process import work
from tests.chaos.subject import open_subject
from tests.servers import Server
from tests.servers_matrix.topologies import Cluster, Watched

AT_ONCE = Politeness(delay=0, concurrency=10_000)
TASKS = 400
MOST_OF_A_WORKER = 4


@contextmanager
def opened(kind, servers, tmp_path):
    """The URL of a server of a kind."""
    if kind == "sentinel":
        with Watched() as watched:
            yield watched.url
    elif kind == "embedded":
        yield f"embedded:{tmp_path / 'server'}"
    else:
        yield servers(kind).url


async def one_page(frontier):
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    return lease.url


@pytest.mark.parametrize("kind", ["valkey", "sentinel", "cluster", "embedded"])
async def test_however_many_tasks_call_at_once_each_waits_for_a_connection(kind, servers, tmp_path, crawl):
    urls = [f"https://h{number}.example/" for number in range(TASKS)]
    with opened(kind, servers, tmp_path) as url:
        async with await Frontier.open(url, crawl=crawl, politeness=AT_ONCE, shards=1) as frontier:
            await asyncio.gather(*map(frontier.enqueue, urls))
            done = await asyncio.gather(*(one_page(frontier) for _ in urls))
            stats = await frontier.admin.stats()
            assert sorted(done) == sorted(urls)
            assert (stats.done, stats.leased, stats.conserved) == (TASKS, 0, True)
            assert next(frontier._connection._slots._numbers) <= TASKS + MOST_NAMED  # each name of a call is free again
            assert 1 <= await connections_of(frontier, f"silkline:{crawl}:") <= CALL_CONNECTIONS


async def connections_of(frontier, name):
    """How many connections of that name the server lists."""
    [node] = await frontier._connection._nodes.all()
    return sum(one["name"].startswith(name) for one in await node.execute("CLIENT LIST"))


def test_threads_wait_for_a_connection_too(valkey, crawl):
    urls = [f"https://h{number}.example/" for number in range(TASKS)]

    def one(frontier):
        [lease] = frontier.claim()
        frontier.complete(lease)
        return lease.url

    with SyncFrontier.open(valkey.url, crawl=crawl, politeness=AT_ONCE) as frontier, ThreadPoolExecutor(120) as pool:
        list(pool.map(frontier.enqueue, urls))
        done = list(pool.map(lambda _: one(frontier), urls))
        with valkey.client() as client:
            ours = [one for one in client.client_list() if one["name"].startswith(f"silkline:{crawl}:")]
        assert sorted(done) == sorted(urls)
        assert len(ours) <= CALL_CONNECTIONS


async def test_the_address_may_allow_more(own_server, crawl):
    server = own_server(tcp=True)
    url = f"{server.tcp_url}?max_connections=7&client_name=ours"
    async with await Frontier.open(url, crawl=crawl, politeness=AT_ONCE) as frontier:
        with server.client() as client:
            client.client_pause(400)
            calls = [asyncio.create_task(frontier.enqueue(f"https://h{number}.example/")) for number in range(200)]
            await asyncio.gather(*calls)
            assert sum(one["name"] == "ours" for one in client.client_list()) == 7
    with pytest.raises(ConfigError, match="cannot be read"):
        await Frontier.open(f"{server.tcp_url}?max_connections=0", crawl=crawl)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_health_check_never_reads_the_reply_to_a_call(own_server, kind, crawl):
    server = own_server()
    frontier = await open_subject(kind, url=server.url, crawl=crawl)
    [node] = getattr(frontier, "frontier", frontier)._connection._opened.opened
    pool = node.client.connection_pool
    with server.client() as client:
        await frontier.enqueue("https://first.example/")
        for connection in (*pool._available_connections, *pool._in_use_connections):
            connection.health_check_interval = 1e-9  # before each command
        before = client.info("stats")["total_connections_received"]
        answers = await frontier.enqueue([f"https://h{number}.example/" for number in range(6000)])
        assert answers == [Admission.ADDED] * 6000
        assert client.info("stats")["total_connections_received"] == before  # none was closed
    await frontier.close()


async def test_a_connection_to_a_former_primary_is_not_used(crawl):
    """Sentinel has named another server, and the former primary still replies."""
    with Watched() as watched:
        async with await Frontier.open(watched.url, crawl=crawl) as frontier:
            node = await frontier._connection._nodes.any()
            for send in (node.run, node.execute):
                before = await node.run("CLIENT", "ID")
                assert await node.run("CLIENT", "ID") == before
                node.client.connection_pool.master_address = ("127.0.0.1", watched.replica.port)
                assert await send("CLIENT", "ID") != before


async def test_a_name_that_no_server_takes_is_made_into_one(valkey, crawl):
    async with await Frontier.open(valkey.url, crawl=crawl, client_name="my crawler, übung") as frontier:
        assert await connections_of(frontier, connection_name(crawl, "my-crawler,-bung")) == 1


@contextmanager
def own_servers(kind):
    """The URL of servers that nobody else uses, and the servers."""
    if kind == "cluster":
        with Cluster() as cluster:
            yield cluster.url, cluster.nodes
        return
    server = Server(kind).start()
    try:
        yield server.url, [server]
    finally:
        server.remove()


@pytest.mark.parametrize("kind", ["valkey", "cluster"])
async def test_a_worker_has_at_most_four_connections_to_a_node_and_they_are_named(kind, crawl):
    hosts = 40
    links = "".join(f"<a href=/{number}>x</a>" for number in range(5))
    pages = {"/": links, **{f"/{number}": "page" for number in range(5)}}
    with own_servers(kind) as (url, nodes), LocalSite(pages, hosts=hosts, latency=0.8) as site:
        starts = [site.at("/", number) for number in range(hosts)]
        crawled = Crawl(crawl, starts, politeness=AT_ONCE, fetching=FetchOptions(allow_private=True))

        @crawled.handler
        def page(page):
            yield page.follow(page.css("a"))

        async with await Frontier.open(url, crawl=crawl, **crawled.arguments) as frontier:
            await frontier.enqueue(starts)
        result, names, most = await watched(nodes, work(crawled, url, options=WorkerOptions(concurrency=64, lease=6)))
    assert result.counters.pages == 40 * 6
    roles = ("worker", "heartbeat", "notifications")
    assert names == {connection_name(crawl, role) for role in roles}
    assert all(re.fullmatch(rf"silkline:{crawl}:[^:]+:{os.getpid()}:[a-z]+", name) for name in names)
    assert most <= MOST_OF_A_WORKER


async def use_fully(subject):
    """Claim, enqueue and wait for results, many of each at the same time."""

    async def claim():
        for lease in await subject.claim(1, wait=1):
            await subject.complete(lease, result=1)

    url = "https://h{}.example/".format
    waiting = [subject.result(url(number), wait=2) for number in range(5)]
    await asyncio.gather(*waiting, *(claim() for _ in range(10)), *(subject.enqueue(url(n)) for n in range(40)))


@pytest.mark.parametrize("frontier", ["async", "sync"])
@pytest.mark.parametrize("kind", ["valkey", "cluster"])
async def test_a_client_that_uses_everything_has_at_most_four_connections_to_a_node(frontier, kind, crawl):
    with own_servers(kind) as (url, nodes):
        subject = await open_subject(frontier, url=url, crawl=crawl, politeness=AT_ONCE, shards=8)
        _, names, most = await watched(nodes, use_fully(subject))
        await subject.close()
    assert {name.rpartition(":")[2] for name in names} == {"client", "notifications", "results"}
    assert most <= MOST_OF_A_WORKER


async def test_the_address_may_name_the_connections(own_server, crawl):
    server = own_server(tcp=True)
    async with await Frontier.open(f"{server.tcp_url}?client_name=ours", crawl=crawl) as frontier:
        _, names, _ = await watched([server], frontier.claim(1, wait=0.5))
    assert names == {"ours"}


async def watched(nodes, working):
    """What was returned, the names of all connections meanwhile, and how many a node had at most."""
    seen, most = set(), 0
    task = asyncio.create_task(working)
    async with AsyncExitStack() as stack:
        watching = [redis.asyncio.Redis(unix_socket_path=str(node.socket), client_name="watch") for node in nodes]
        clients = [await stack.enter_async_context(client) for client in watching]
        while not task.done():
            for client in clients:
                names = [one["name"] for one in await client.client_list() if one["name"] != "watch"]
                seen.update(names)
                most = max(most, len(names))
            await asyncio.sleep(0.005)
    return await task, seen - {""}, most  # one that connects has no name for a moment
