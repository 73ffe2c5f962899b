"""Crawls whose calls return only after their writes are on disk, or on a replica."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from silkline import Admission, Budget, Complete, Frontier, Politeness, Request, SyncFrontier
from silkline.errors import ConfigError, NewerData, SettingsConflict, StoreUnavailable
from silkline.frontier.store import settings as stored_settings
from silkline.frontier.transport import connection, durability
from tests.chaos.subject import open_subject
from tests.servers_matrix.topologies import wait_until

AT_ONCE = Politeness(delay=0, concurrency=1000)
AOF = {"appendonly": "yes", "appendfsync": "always"}
TWICE = [Request(f"https://a.example/{number}", dont_filter=True) for number in range(3)]


@pytest.fixture
def primary(own_server):
    """A server with a replica that is in step."""
    first = own_server(tcp=True, **AOF, repl_diskless_sync_delay=0)
    second = own_server(replicaof=f"127.0.0.1 {first.port}")
    wait_until(lambda: is_in_step(second), "the replica is in step")
    return first, second


def is_in_step(replica):
    with replica.client() as client:
        return client.info("replication").get("master_link_status") == "up"


def set_fsync(server, policy):
    with server.client() as client:
        client.config_set("appendfsync", policy)


def calls_of(server, command):
    with server.client() as client:
        return client.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0)


@contextmanager
def unconfirmed(where):
    """A block whose call fails, after a short time, because its writes are not on disk or on a replica."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durability, "WAIT_MS", 200)
        patch.setattr(connection, "RETRY_SECONDS", 0.2)
        try:
            yield
        except StoreUnavailable as error:
            assert f"a write that was not on {where}" in str(error)  # noqa: PT017 - a context manager of its own
        else:
            pytest.fail("the call returned")


async def test_a_call_returns_only_after_its_writes_are_on_disk(own_server, subject):
    """Without fsync, the system may write whenever it wants: no call may say that something is stored."""
    server = own_server(**AOF)
    frontier = await subject(url=server.url, durability="always", politeness=AT_ONCE, lease=300)
    await frontier.enqueue("https://a.example/first")
    [lease] = await frontier.claim(1)
    set_fsync(server, "no")
    with unconfirmed("disk"):
        await frontier.enqueue(TWICE)
    with unconfirmed("disk"):
        await frontier.complete(lease)
    with server.client() as client:  # a new connection has written nothing that it could wait for
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    with unconfirmed("disk"):
        await frontier.enqueue(TWICE)
    assert (await frontier.admin.stats()).ready == 3  # a call that reads waits for nothing
    set_fsync(server, "always")
    assert await frontier.enqueue(TWICE) == [Admission.ADDED] * 3
    await frontier.settle([(lease, Complete())])
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.conserved) == (3, True)  # the repeated call stored them once


async def test_a_call_returns_only_after_a_replica_has_its_writes(primary, subject):
    server, replica = primary
    frontier = await subject(url=server.url, durability="replicated", politeness=AT_ONCE)
    assert await frontier.enqueue("https://a.example/first") == [Admission.ADDED] * 1
    replica.freeze()
    with unconfirmed("a replica"):
        await frontier.enqueue(TWICE)
    replica.thaw()
    wait_until(lambda: is_in_step(replica), "the replica is in step")
    assert await frontier.enqueue(TWICE) == [Admission.ADDED] * 3
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.conserved) == (4, True)


async def test_what_a_replica_confirmed_survives_the_loss_of_the_primary(primary, crawl):
    server, replica = primary
    frontier = await Frontier.open(server.url, crawl=crawl, durability="replicated", politeness=AT_ONCE, lease=300)
    urls = [f"https://h{number}.example/" for number in range(40)]
    assert await frontier.enqueue(urls) == [Admission.ADDED] * 40
    await frontier.settle([(lease, Complete()) for lease in await frontier.claim(10)])
    await frontier.close()
    server.kill()
    with replica.client() as client:
        client.execute_command("REPLICAOF", "NO", "ONE")
        ledger = client.hgetall(frontier.layout.shards[0].ledger)
    assert (int(ledger[b"done"]), int(ledger[b"accepted"])) == (10, 40)


@pytest.mark.parametrize("count", [20, 3000])
async def test_calls_that_are_sent_together_are_confirmed(own_server, subject, count):
    """To several shards, and as a stream to the only one. A batch that was not confirmed is stored once all the same."""
    server = own_server(**AOF)
    shards = 8 if count == 20 else 1
    requests = [Request(f"https://h{number}.example/", dont_filter=True) for number in range(count)]
    frontier = await subject(url=server.url, durability="always", politeness=AT_ONCE, shards=shards)
    set_fsync(server, "no")
    with unconfirmed("disk"):
        await frontier.enqueue(requests)
    set_fsync(server, "always")
    before = calls_of(server, "waitaof")
    assert await frontier.enqueue(requests) == [Admission.ADDED] * count
    assert calls_of(server, "waitaof") > before
    assert (await frontier.admin.stats()).ready == count


async def test_a_crawl_without_it_sends_nothing_more(own_server, subject):
    server = own_server(**AOF)
    frontier = await subject(url=server.url, politeness=AT_ONCE, shards=2)
    await frontier.enqueue(["https://a.example/", "https://b.example/"])
    await frontier.settle([(lease, Complete()) for lease in await frontier.claim(2)])
    assert (calls_of(server, "waitaof"), calls_of(server, "wait")) == (0, 0)


async def test_a_later_client_waits_without_naming_it(own_server, subject):
    server = own_server(**AOF)
    await subject(url=server.url, durability="always", budget=Budget(pages=9))
    later = await subject(url=server.url)
    set_fsync(server, "no")
    with unconfirmed("disk"):
        await later.enqueue("https://a.example/")
    set_fsync(server, "always")
    with pytest.raises(SettingsConflict, match="durability is always, not everysec"):
        await subject(url=server.url, durability="everysec")


async def test_every_call_on_a_cluster_is_confirmed_by_the_node_of_its_shard(cluster, crawl):
    frontier = await Frontier.open(cluster.url, crawl=crawl, durability="always", shards=12, politeness=AT_ONCE)
    counts = [calls_of(node, "waitaof") for node in cluster.nodes]
    await frontier.enqueue([f"https://h{number}.example/" for number in range(200)])
    assert all(calls_of(node, "waitaof") > count for node, count in zip(cluster.nodes, counts, strict=True))
    await frontier.close()


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_server_that_cannot_do_it_is_refused_before_anything_is_stored(own_server, crawl, kind):
    server, old, lazy = own_server(), own_server("redis-7.0"), own_server(appendonly="yes", appendfsync="no")

    async def refusal(where, durability):
        with pytest.raises(ConfigError) as error:
            await open_subject(kind, url=where, crawl=crawl, durability=durability)
        return str(error.value)

    assert "it has no append-only file: set appendonly yes" in await refusal(server.url, "always")
    assert "it has no replica: connect one" in await refusal(server.url, "replicated")
    assert "it is Redis 7.0" in await refusal(old.url, "always")
    assert "durability must be 'everysec', 'always' or 'replicated'" in await refusal(server.url, "fsync")
    with server.client() as client:
        assert client.keys() == []
        client.execute_command("ACL SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-waitaof")
    assert "appendfsync no" in await refusal(lazy.url, "always")
    assert "its user may not run WAITAOF: grant +waitaof" in await refusal(
        f"unix://limited:secret@{server.socket}", "always"
    )


def test_earlier_versions_refuse_such_a_crawl(own_server, crawl, monkeypatch):
    """They would not wait, and would drop the setting with the next change of another."""
    server = own_server(**AOF)
    SyncFrontier.open(server.url, crawl=crawl, durability="always").close()
    monkeypatch.setattr(stored_settings, "NEWEST_SCHEMA", stored_settings.BLOCKS_SCHEMA)
    with pytest.raises(NewerData, match="schema 4, this Silkline knows 3"):
        SyncFrontier.open(server.url, crawl=crawl)
