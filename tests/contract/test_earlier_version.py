"""A crawl that an earlier version wrote is listed, explained, continued and finished by this one.

The files in `data` hold every key of such crawls, and what the version that wrote them said about them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from silkline import Crawl, FetchOptions, Frontier, Lease, Politeness, Release, Request, Worker
from silkline.testing import Clock, LocalSite
from tests.contract.frontiers import Awaited

DATA = Path(__file__).parent / "data"
FILES = sorted(path.stem for path in DATA.glob("crawl-*.json"))
PER_HOST = 6
"""The budget of pages per host in `data/write_crawls.py`."""


SUSPECTS = {
    "doubt.example": 0,
    "strike.example": 1,
    "h0.example": 0,
    "h3.example": 1,
    "h4.example": 0,
    "lanes.example": 0,
}
"""Strikes of the requests whose worker was lost. Of three hosts they are leased when the crawl is continued, and expire."""


class Written:
    """One file: the keys, and what was said about them."""

    def __init__(self, stem):
        crawl = json.loads((DATA / f"{stem}.json").read_text())
        self.now, self.keys, self.told = crawl["now"], crawl["keys"], crawl["told"]
        self.program = crawl["program"]
        self.sent = msgspec.convert(crawl["sent"], list[Request])
        whole = [lease | {"wire_token": f"{lease['token']}.{lease['nonce']}"} for lease in crawl["leases"]]
        self.leases = msgspec.convert(whole, list[Lease])
        self.limited = "compact" not in stem  # those crawls have no budget per host

    @property
    def states(self):
        return self.told["states"]

    def of(self, *states):
        """The URLs that were in one of these states."""
        return {url for url, state in self.states.items() if state in states}

    def load(self, client):
        client.flushall()
        for key, stored in self.keys.items():
            self._load_key(client, key, stored["type"], stored["value"])
            if stored["expires"]:
                client.expire(key, 300)

    def _load_key(self, client, key, kind, value):
        if kind == "hash":
            client.hset(key, mapping={_bytes(field): _bytes(stored) for field, stored in value})
        elif kind == "zset":
            client.zadd(key, {_bytes(member): score for member, score in value})
        elif kind == "list":
            client.rpush(key, *map(_bytes, value))
        elif kind == "set":
            client.sadd(key, *map(_bytes, value))
        else:
            client.set(key, _bytes(value))


def _bytes(value):
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])


@pytest.fixture(params=FILES)
def written(request):
    return Written(request.param)


@pytest.fixture(params=["Frontier", "SyncFrontier"])
def continued(request, own_server, written):
    """Opens the crawl on a server of its own, at the time when it was written."""
    server = own_server()
    with server.client() as client:
        written.load(client)

    @asynccontextmanager
    async def open_():
        clock = Clock(written.now)
        kind = Frontier if request.param == "Frontier" else Awaited
        frontier = await kind.open(server.url, crawl="shop", create=False, clock=clock)
        try:
            yield frontier, clock
        finally:
            await frontier.close()

    return open_


def test_the_crawls_were_written_by_the_program_beside_them(written):
    program = (DATA / "write_crawls.py").read_bytes()
    assert written.program == hashlib.sha256(program).hexdigest(), "write_crawls.py was changed and not run again"


async def test_an_earlier_crawl_is_listed_as_the_earlier_version_listed_it(written, continued):
    async with continued() as (frontier, _):
        stats = msgspec.to_builtins(await frontier.admin.stats())
        assert {name: stats[name] for name in written.told["stats"]} == written.told["stats"]
        explained = {request.url: (await frontier.admin.explain(request)).state for request in written.sent}
        assert explained == written.states
        dead = await frontier.admin.dead()
        assert [
            [letter.url, letter.reason, letter.status, letter.attempts, letter.crashes, len(letter.history)]
            for letter in dead
        ] == written.told["dead"]
        assert [list(group) for group in await frontier.admin.dead_groups()] == written.told["reasons"]
        hosts = await frontier.admin.hosts(*written.told["hosts"])
        assert {host.host: list(host[1:13]) for host in hosts} == written.told["hosts"]
        assert (await frontier.admin.fsck()).sound


async def test_an_earlier_crawl_keeps_all_dead_letters_until_it_gets_a_limit(written, continued):
    async with continued() as (frontier, _):
        before = await frontier.admin.stats()
        for lease in written.leases:
            await frontier.bury(lease, "no")
        stats = await frontier.admin.stats()
        assert (stats.dead, stats.dead_limit, stats.dead_dropped) == (before.dead + len(written.leases), 0, 0)
        left = len(
            {letter.id.partition("-")[0] for letter in await frontier.admin.dead(limit=1000)}
        )  # one on each shard
        await frontier.admin.set_dead_limit(1)
        stats = await frontier.admin.stats()
        assert (stats.dead, stats.dead_limit) == (left, 1)
        assert stats.dead_dropped == before.dead + len(written.leases) - left
        assert stats.conserved
        assert (await frontier.admin.fsck()).sound


async def test_what_surrounds_an_earlier_crawl_is_read(written, continued):
    async with continued() as (frontier, _):
        workers = await frontier.admin.workers()
        assert [list(worker[:5]) for worker in workers] == written.told[
            "workers"
        ]  # what the version before knew of them
        assert [worker.order for worker in workers] == ["quiet", "work"]
        assert await frontier.internal.ordered("m1-100") == "quiet"
        points = [
            [point.time, point.pages, point.bytes, point.errors, point.levels and msgspec.to_builtins(point.levels)]
            for point in await frontier.admin.history(since=600)
            if point.pages
        ]
        told = [[*counts, levels and {**levels, "server_memory": 0}] for *counts, levels in written.told["history"]]
        assert points == told
        assert [list(entry) for entry in await frontier.admin.audit()] == written.told["audit"]
        options = await frontier.admin.run_options()
        assert [str(output) for output in options.outputs] == ["s3://bucket/items.jsonl", "/data/x.csv on m1"]
        assert (options.sinks, options.allow_private) == (("mine",), True)
        assert options.outputs[0].hidden == ("AWS_SECRET_ACCESS_KEY",)


async def test_the_robots_cache_of_an_earlier_crawl_is_used(written, continued):
    async with continued() as (frontier, _):
        known = {host: await frontier.robots(f"https://{host}/") for host in ("h5.example", "h6.example", "h7.example")}
        assert {robots.state for robots in known.values()} == {"known"}
        assert b"Disallow: /private" in known["h5.example"].text
        assert known["h6.example"].text == b""
        assert (known["h7.example"].text, known["h7.example"].reason) == (None, "connection refused")
        assert (await frontier.robots("https://h0.example/")).state == "fetching"
        told = await frontier.admin.explain("https://h5.example/private/x", agent="shop")
        assert told.state is None
        assert "robots.txt" in told.text


async def test_what_was_seen_stays_seen(written, continued):
    async with continued() as (frontier, _):
        again = [request for request in written.sent if not request.dont_filter]
        assert set(await frontier.enqueue(again)) == {"seen"}
        marked = Request("https://h0.example/marked", identity=b"\x02" * 20)
        assert await frontier.enqueue(marked) == ["seen"]
        assert await frontier.enqueue("https://h0.example/new") == ["added"]


async def test_leases_of_the_earlier_version_are_extended_and_ended(written, continued):
    async with continued() as (frontier, _):
        assert await frontier.extend(written.leases, lease=100) == []
        kept, *ended = written.leases
        for lease in ended:
            await frontier.complete(lease)
        await frontier.settle([(kept, Release())])
        stats = await frontier.admin.stats()
        assert stats.leased == 0
        assert stats.done == written.told["stats"]["done"] + len(ended)
        assert stats.conserved
        assert (await frontier.admin.fsck()).sound


async def test_the_inbox_continues_where_it_was(written, own_server):
    server = own_server()
    with server.client() as client:
        written.load(client)
    clock = Clock(written.now)
    async with await Frontier.open(server.url, crawl="shop", create=False, clock=clock) as frontier:
        inbox = frontier.inbox("shop:start_urls", hold=600)
        assert [message.data for message in await inbox.take(5)] == [b"https://in.example/2"]
        clock.advance(600)
        assert b"https://in.example/1" in [message.data for message in await inbox.take(5)]


async def test_an_earlier_crawl_is_finished_with_every_page_once(written, continued):
    async with continued() as (frontier, clock):
        assert await frontier.claim(5) == []  # it was paused
        await frontier.admin.resume()
        await frontier.admin.resume("h2.example")
        assert await frontier.admin.revive() == len(written.told["dead"])
        finished, leases = await finish(frontier, clock)
        left = written.of("ready", "delayed", "leased", "dead")
        dropped = left - set(finished)
        assert max(Counter(finished).values()) == 1
        assert set(finished) <= left
        assert {url.rpartition("/")[0] for url in dropped} <= {"https://many.example"}
        assert len(dropped) == (2 if written.limited else 0)  # beyond the budget of their host
        sent = {request.url: request for request in written.sent}
        for url, lease in leases.items():
            assert lease.request == msgspec.structs.replace(sent[url], identity=b"", not_before=None), url
        assert {lease.host: lease.crashes for lease in leases.values() if lease.suspect} == SUSPECTS
        stats = await frontier.admin.stats()
        assert (stats.done, stats.discarded) == (len(written.sent) - len(dropped), len(dropped))
        assert (stats.ready, stats.delayed, stats.leased, stats.dead) == (0, 0, 0, 0)
        assert stats.conserved
        assert (await frontier.admin.fsck()).sound


async def finish(frontier, clock):
    """Complete every request. Returns the URLs in the order of their completion, and the leases by URL."""
    finished, held = [], {}
    while not await frontier.finished():
        leases = await frontier.claim(10, lease=60)
        for lease in leases:
            await frontier.complete(lease)
            finished.append(lease.url)
            held[lease.url] = lease
        if not leases:
            clock.advance(30)
            assert clock.now - 1_700_000_000_000 < 86_400_000, (await frontier.admin.stats(), finished)
    return finished, held


@pytest.mark.parametrize("stem", ["crawl-exact-4", "crawl-compact-1"])
async def test_a_worker_finishes_an_earlier_crawl(stem, own_server):
    """In real time: for it, the leases have expired long ago, and all delays are over."""
    written, server = Written(stem), own_server()
    with server.client() as client:
        written.load(client)
    async with LocalSite({"/*": "x"}) as site:
        crawl = all_at(site)
        async with await Frontier.open(server.url, crawl="shop", create=False) as frontier:
            await frontier.admin.resume()
            await frontier.admin.resume("h2.example")
            await frontier.admin.set_politeness(Politeness(delay=0, concurrency=4))
            await frontier.admin.set_host("h1.example", delay=None, concurrency=None, burst=None)
            await frontier.admin.set_host("h5.example", crawl_delay=None)
            await asyncio.wait_for(Worker(crawl, frontier).run(), 100)
            stats = await frontier.admin.stats()
            assert (await frontier.admin.fsck()).sound
    left = written.of("ready", "delayed", "leased")
    visited = Counter(visit.path for visit in site.visits)
    assert max(visited.values()) == 1
    assert len(left) - sum(visited.values()) == stats.discarded == (2 if written.limited else 0)
    assert stats.done == len(written.sent) - len(written.told["dead"]) - stats.discarded
    assert (stats.ready, stats.delayed, stats.leased, stats.dead) == (0, 0, 0, len(written.told["dead"]))


def all_at(site):
    """The crawl, with every page fetched from *site*: its hosts do not exist."""
    crawl = Crawl("shop", (), fetching=FetchOptions(allow_private=True, obey_robots=False))

    @crawl.handler
    async def parse(page):
        pass

    @crawl.handler
    async def parse_shop(page):
        pass

    @crawl.middleware
    async def to_the_site(request, call_next):
        there = site.at("/" + request.url.partition("://")[2].replace("?", "%3F"))
        return await call_next(msgspec.structs.replace(request, url=there, timeout=None))

    return crawl
