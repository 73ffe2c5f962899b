"""A cluster whose slots are moved from node to node while a crawl runs on them."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from redis.crc import key_slot

from silkline import Complete, Politeness
from silkline.errors import ShardMigrating, StoreUnavailable
from silkline.frontier.store.keys import CrawlKeys
from tests.chaos.processes import Process
from tests.chaos.subject import crawl_all, open_subject
from tests.servers import binary
from tests.servers_matrix.topologies import Cluster, Migration, wait_until

AT_ONCE = Politeness(delay=0, concurrency=1000)
PROGRAMS = ("redis-6.2", "redis-7.0", "valkey")
SHARDS = 4


URLS = [f"https://h{number}.example/" for number in range(16_000)]


def slots_of(crawl, shards=SHARDS, *, settings=True):
    keys = CrawlKeys(crawl)
    names = [keys.shard(number).root for number in range(shards)] + [keys.settings] * settings
    return sorted({key_slot(name.encode()) for name in names})


class Fleet:
    """Workers that claim, fetch nothing, and settle; each is closed and opened again from time to time."""

    def __init__(self, kinds, settings, seed, most):
        self.kinds, self.settings, self.most = kinds, settings, most
        self.random = random.Random(seed)
        self.claimed = Counter()
        self.began = asyncio.Event()
        self.restarts = self.waits = 0
        self.over = False

    async def run(self):
        await asyncio.gather(*(self._work(kind) for kind in self.kinds))

    async def _work(self, kind):
        while not self.over:
            frontier = await self._patiently(open_subject, kind, **self.settings)
            until = time.monotonic() + self.random.uniform(0.3, 1.0)
            while time.monotonic() < until and not self.over:
                await self._step(frontier)
            await frontier.close()
            self.restarts += 1

    async def _step(self, frontier):
        leases = await self._patiently(frontier.claim, self.most, wait=0.1)
        self.claimed.update(lease.url for lease in leases)
        await self._patiently(frontier.settle, [(lease, Complete()) for lease in leases])
        if leases:
            self.began.set()
        else:
            with suppress(StoreUnavailable):
                self.over = await frontier.finished() or self.over

    async def _patiently(self, act, *words, **options):
        """As a worker does it: the server is away for a while, and comes back."""
        while True:
            try:
                return await act(*words, **options)
            except StoreUnavailable:
                self.waits += 1
                await asyncio.sleep(0.05)


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    if binary(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


READ = {b"ledger": "HGETALL", b"leases": "ZCARD"}


def all_keys(cluster):
    """Every key but the kept replies, byte for byte, wherever it is; of leases only how many there are."""
    found = {}
    for node in cluster.nodes:
        with node.client() as client, client.pipeline(transaction=False) as pipe:
            for name in client.scan_iter("silkline:*", count=1000):
                if b":once:" not in name:
                    assert name not in found, "on two nodes"
                    pipe.execute_command("ASKING")  # or a node does not show what it is about to own
                    pipe.execute_command(READ.get(name.rpartition(b":")[2], "DUMP"), name)
                    found[name] = pipe.execute()[1]
    return found


async def check_that_it_waits(frontier, leases, ended, settings):
    """As long as the slot moves, whatever has moved: nothing is claimed, nothing is changed, nothing is said to be lost."""
    for act in (
        frontier.claim,
        frontier.finished,
        frontier.admin.stats,
        partial(frontier.enqueue, URLS[-1]),
        partial(frontier.complete, leases[0]),
    ):
        with pytest.raises(StoreUnavailable, match="moving the slot of"):
            await act()
    assert await frontier.extend([*leases, ended]) == [ended], "workers keep what they hold"
    late = await open_subject("sync", **settings)
    with pytest.raises(ShardMigrating):
        await late.claim(1)
    await late.close()


async def test_a_shard_waits_while_its_slot_moves(program, crawl, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0)
    [slot] = slots_of(crawl, 1, settings=False)
    with Cluster(program, slots=[slot]) as cluster:
        settings = {"url": cluster.url, "crawl": crawl, "politeness": AT_ONCE, "shards": 1}
        frontiers = [await open_subject(kind, **settings) for kind in ("async", "sync")]
        await frontiers[0].enqueue(URLS[:50])
        ended, *leases = await frontiers[0].claim(11)
        await frontiers[0].complete(ended)
        keys, migration, before = CrawlKeys(crawl).shard(0), Migration(cluster, [slot]), all_keys(cluster)
        migration.begin()
        for step in ([], [keys.leases.encode()], migration.keys()[:20], [keys.ledger.encode()], migration.keys()):
            left = migration.keys()
            migration.move([key for key in step if key in left])
            for frontier in frontiers:
                await check_that_it_waits(frontier, leases, ended, settings)
            assert all_keys(cluster) == before
        migration.finish()
        assert (await frontiers[0].settle([(lease, Complete()) for lease in leases])).lost == []
        assert sorted(await crawl_all(frontiers[1])) == sorted(
            set(URLS[:50]) - {lease.url for lease in [ended, *leases]}
        )
        await check_books(frontiers[0], 50)
        for frontier in frontiers:
            await frontier.close()


async def check_books(frontier, done):
    stats = await frontier.admin.stats()
    assert (stats.conserved, stats.done, stats.rescued) == (True, done, 0)
    assert (await frontier.admin.fsck()).damages == []


async def crawl_and_move(cluster, crawl, move, urls, kinds=("async", "async", "sync")):
    """Crawl all URLs with workers that come and go, while the slots of the crawl move to another node."""
    settings = {"url": cluster.url, "crawl": crawl, "politeness": AT_ONCE, "shards": SHARDS, "lease": 60}
    frontier = await open_subject("async", **settings)
    await frontier.enqueue(urls)
    fleet, slots = Fleet(kinds, settings, seed=crawl, most=max(20, len(urls) // 200)), slots_of(crawl)
    work = asyncio.create_task(fleet.run())
    await fleet.began.wait()
    await move(cluster, slots, fleet)
    await asyncio.wait_for(work, 240)
    assert cluster.owners(slots) == {(1, 1, 1)}
    twice = [url for url, times in fleet.claimed.items() if times > 1]
    assert (len(set(urls) - set(fleet.claimed)), len(twice)) == (0, 0)
    await check_books(frontier, len(urls))
    await frontier.close()
    print(f"{fleet.restarts} restarts, {fleet.waits} waits")


async def move_by_hand(cluster, slots, fleet):
    """Half of the keys; then workers come and go; then the rest."""
    migration = Migration(cluster, slots)
    await asyncio.to_thread(migration.begin)
    keys = await asyncio.to_thread(migration.keys)
    await asyncio.to_thread(migration.move, keys[::2])
    for kind in ("async", "sync") * 3:
        visitor = await open_subject(kind, **fleet.settings)
        with pytest.raises(ShardMigrating):
            await visitor.claim(20)
        await visitor.close()
    left = set(await asyncio.to_thread(migration.keys))
    assert left == set(keys) - set(keys[::2]), "nothing came or went meanwhile"
    await asyncio.to_thread(migration.finish)


async def reshard(cluster, slots, fleet):
    """As an operator does it."""
    with cluster.reshard(len(slots)) as program:
        told, _ = await asyncio.to_thread(program.communicate, timeout=300)
    assert program.returncode == 0, told[-2000:]


async def move_at_once(cluster, slots, fleet):
    """As Valkey 9 does it: the slots change hands at one moment, with all their keys."""
    source, target, _ = cluster.nodes
    with source.client() as client:
        for slot in slots:
            client.execute_command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
    await asyncio.to_thread(wait_until, lambda: cluster.owners(slots) == {(1, 1, 1)}, "the slots have moved", 300)


async def test_workers_that_start_while_slots_move_found_nothing_and_lose_nothing(crawl, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.2)
    with Cluster("valkey", slots=slots_of(crawl)) as cluster:
        await crawl_and_move(cluster, crawl, move_by_hand, URLS[:500])


async def test_nothing_is_lost_or_done_twice_when_slots_move_at_once(crawl):
    with Cluster("valkey", slots=slots_of(crawl)) as cluster:
        await crawl_and_move(cluster, crawl, move_at_once, URLS[:1000])


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("time_", range(2))
@pytest.mark.parametrize(
    ("program", "move"), [*((program, reshard) for program in PROGRAMS), ("valkey", move_at_once)], indirect=["program"]
)
async def test_a_large_crawl_is_resharded_while_workers_come_and_go(program, crawl, move, time_):
    with Cluster(program, slots=slots_of(crawl)) as cluster:
        await crawl_and_move(cluster, crawl, move, URLS, ["async", "async", "sync", "async"])


class PatientWorker(Process):
    """See patient_worker.py."""

    program = Path(__file__).with_name("patient_worker.py")


class Killed:
    """Worker processes that are killed at random, with a new one for each, as long as it lasts."""

    def __init__(self, count, seed, **settings):
        self.settings, self.random = settings, random.Random(seed)
        self.kinds = [number % 2 == 0 for number in range(count)]
        self.victims = set()
        self.workers = []

    def __enter__(self):
        self.workers = [self._start(kind) for kind in self.kinds]
        for worker in self.workers:
            assert worker.read() == "here\n"
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.end()

    def _start(self, asynchronous):
        return PatientWorker(asynchronous=asynchronous, **self.settings)

    async def kill_until(self, over, least):
        while not over.done() or len(self.victims) < least:
            await asyncio.sleep(self.random.uniform(0.1, 0.5))
            number = self.random.randrange(len(self.workers))
            victim = self.workers[number]
            assert victim.alive, "it ended by itself"
            victim.kill()
            self.victims.add(victim.process.pid)
            victim.end()
            self.workers[number] = self._start(self.kinds[number])
        await over

    async def join(self, seconds):
        async with asyncio.timeout(seconds):
            codes = [await asyncio.to_thread(worker.process.wait) for worker in self.workers]
        assert set(codes) == {0}


def read_log(path):
    """For every URL, what was done with it, in order: pairs of a process id and a word."""
    entries = defaultdict(list)
    for line in path.read_text().splitlines():
        pid, word, url = line.split()
        entries[url].append((int(pid), word))
    return entries


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("program", "move"), [*((program, reshard) for program in PROGRAMS), ("valkey", move_at_once)], indirect=["program"]
)
async def test_a_large_crawl_is_resharded_while_workers_are_killed(program, crawl, move, tmp_path):
    hosts, log = len(URLS) // 2, tmp_path / "log"
    settings = {"crawl": crawl, "lease": 20}
    with Cluster(program, slots=slots_of(crawl)) as cluster:
        settings |= {"url": cluster.url}
        frontier = await open_subject("async", **settings, politeness=AT_ONCE, shards=SHARDS)
        await frontier.enqueue([f"https://h{number}.example/0" for number in range(hosts)])
        with Killed(4, crawl, log=str(log), hosts=hosts, most=40, **settings) as killed:
            moving = asyncio.create_task(move(cluster, slots_of(crawl), None))
            await killed.kill_until(moving, least=12)
            await killed.join(240)
        assert cluster.owners(slots_of(crawl)) == {(1, 1, 1)}
        stats = await frontier.admin.stats()
        assert (await frontier.admin.fsck()).damages == []
        await frontier.close()
    entries = read_log(log)
    again = {url for url, all_ in entries.items() if [word for _, word in all_].count("claimed") > 1}
    blameless = {url for url in again if not killed.victims & {pid for pid, word in entries[url] if word == "claimed"}}
    twice = {url for url, all_ in entries.items() if [word for _, word in all_].count("done") > 1}
    print(f"{len(killed.victims)} killed, {stats.rescued} rescued, {len(again)} claimed again, {len(twice)} done twice")
    assert (stats.done, stats.dead, stats.conserved) == (2 * hosts, 0, True)
    assert len(entries) == 2 * hosts
    assert (blameless, twice) == (set(), set())
