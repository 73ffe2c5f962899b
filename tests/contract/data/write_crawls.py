"""Writes the crawls of `tests/contract/test_earlier_version.py`, with requests in every state.

Run it with the version whose data must stay readable, from the root of its checkout, with this file's folder as argument::

    git worktree add ../before 6978f28
    cd ../before && .venv/bin/python -m tests.contract.data.write_crawls FOLDER

The imports are those of that version, so the present one cannot run it. Each file holds every key of one crawl, and what that
version said about it. Time is simulated: it starts in 2023, so that for a real clock all leases have expired.
"""

# ruff: noqa: I001
from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
from pathlib import Path

import msgspec

from silkline import Budget, Bury, Frontier, Politeness, Release, Request, RetryIn
from silkline.core.verdict import Strike
from silkline.frontier.answers import Answers
from silkline.frontier.history import Counts, Levels
from silkline.frontier.run_options import Output, RunOptions
from silkline.testing import Clock
from tests.servers import Server

START = 1_700_000_000_000
CRAWL = "shop"
INBOX = "shop:start_urls"
PER_HOST = 6
HOSTS = [f"h{n}.example" for n in range(8)]
ROBOTS = (
    b"User-agent: *\nDisallow: /private\nCrawl-delay: 2\n" + b"Disallow: /search\n" * 9
)  # long enough to be deflated
KINDS = [(seen, shards) for seen in ("exact", "compact", "bloom:0.001,500") for shards in (1, 4)]


class Writer:
    """Takes one crawl through all states, and keeps what was sent."""

    def __init__(self, frontier, budget, clock):
        self.frontier = frontier
        self.budget = budget
        self.clock = clock
        self.sent = []

    async def enqueue(self, *requests):
        requests = [Request(request) if isinstance(request, str) else request for request in requests]
        self.sent += requests
        answers = await self.frontier.enqueue(requests)
        assert all(answer == "added" for answer in answers), answers

    async def claim_of(self, *hosts, n=1):
        """Exactly *n* leases of each host; others are given back."""
        wanted, kept = dict.fromkeys(hosts, n), []
        others = []
        for _ in range(20):
            for lease in await self.frontier.claim(100, lease=60):
                if wanted.get(lease.host, 0) > 0:
                    wanted[lease.host] -= 1
                    kept.append(lease)
                else:
                    others.append(lease)
            if not any(wanted.values()):
                break
            self.clock.advance(1)
        assert not any(wanted.values()), wanted
        await self.frontier.settle([(lease, Release()) for lease in others])
        return kept

    async def write(self):
        await self.configure()
        await self.write_suspects()
        await self.write_ended()
        await self.write_waiting()
        await self.write_hosts()
        leases = await self.write_leased()
        await self.write_around()
        return leases

    async def configure(self):
        frontier = self.frontier
        await frontier.set_politeness(Politeness(delay=0.5, concurrency=2, burst=2))
        await frontier.set_budget(self.budget)
        output = Output("s3://bucket/items.jsonl", hidden=("AWS_SECRET_ACCESS_KEY",))
        await frontier.set_run_options(
            RunOptions(outputs=(output, Output("/data/x.csv", machine="m1")), sinks=("mine",), allow_private=True)
        )

    async def write_suspects(self):
        """One suspect, and one that took a worker down. They wait in their queues when this returns."""
        await self.enqueue("https://doubt.example/once", "https://strike.example/twice")
        assert len(await self.frontier.claim(2, lease=1)) == 2
        self.clock.advance(2)
        leases = []
        while len(leases) < 2:
            leases += await self.frontier.claim(1, lease=1)
            self.clock.advance(0.1)
        [begun] = [lease for lease in leases if lease.host == "strike.example"]
        [other] = [lease for lease in leases if lease.host == "doubt.example"]
        assert begun.suspect
        await self.frontier.settle([(other, Release())])
        self.clock.advance(2)
        await self.frontier.settle([(lease, Release()) for lease in await self.frontier.claim(1, lease=1)])

    async def write_ended(self):
        """Done with links, dead for several reasons, and one host whose budget is half spent."""
        frontier = self.frontier
        await self.enqueue(
            *(f"https://{host}/done" for host in HOSTS),
            *(f"https://{host}/dead" for host in HOSTS),
            *(f"https://many.example/{n}" for n in range(3)),
            Request("https://form.example/dead", method="POST", body=b"\x00\xff", headers={"X-Kind": "dead"}),
        )
        done = await self.claim_of(*HOSTS, n=2)
        ended = [lease for lease in done if lease.url.endswith("/done")]
        dead = [lease for lease in done if lease.url.endswith("/dead")]
        assert len(ended) == len(dead) == len(HOSTS)
        for lease in ended:
            links = [f"https://{lease.host}/link", Request(f"https://{lease.host}/deep", depth=3)]
            self.sent += [Request(links[0], depth=1), links[1]]
            await frontier.complete(lease, links)
        verdicts = [
            Bury("404 Not Found", 404, "<html>"),
            Bury("410 Gone", 410),
            Bury("robots.txt forbids https://h2.example/dead"),
            Strike("the worker ran out of memory"),
            RetryIn(5, "503 Service Unavailable", 503, detail="Traceback: ü"),
            RetryIn(40, "timed out after 30 s"),
            Bury("timed out after 30 s"),
            Bury("ValueError: bad price", None, "Traceback (most recent call last)"),
        ]
        await frontier.settle(zip(sorted(dead, key=lambda lease: lease.host), verdicts, strict=True))
        for _ in range(3):
            await frontier.complete(*await self.claim_of("many.example"))
        [form] = await self.claim_of("form.example")
        await frontier.bury(form, "500 Internal Server Error", 500)
        self.clock.advance(6)
        [again] = await self.claim_of("h4.example")
        await frontier.settle([(again, Bury("503 Service Unavailable", 503))])

    async def write_waiting(self):
        """Requests of every form, in several lanes, and some that are delayed."""
        soon = self.clock.seconds
        await self.enqueue(
            Request("https://lanes.example/low", priority=-5),
            "https://lanes.example/plain",
            Request("https://lanes.example/high", priority=1000),
            Request("https://lanes.example/higher", priority=7, handler="parse_shop"),
            *(f"https://many.example/{n}" for n in range(3, 8)),
            *(f"https://{host}/ready?q=%C3%BC&n={n}" for host in HOSTS for n in range(2)),
            Request(
                "https://form.example/post",
                method="POST",
                body=b"\x00\xffname=\n\n",
                headers={"Content-Type": "application/octet-stream"},
                cookies={"a": "b"},
                auth=("user", "päss"),
                meta={"price": 1.5, "tags": ["x", None], "nested": {"n": 2**40}},
                timeout=12.5,
                depth=4,
                redirects=("https://form.example/", "https://form.example/login"),
            ),
            Request("https://lanes.example/unfiltered", dont_filter=True),
            Request("https://form.example/known-as", identity=b"\x01" * 20),
            Request("http://h0.example:8080/port", not_before=soon + 900),
            Request("https://later.example/", not_before=soon + 1800, priority=3),
        )

    async def write_hosts(self):
        frontier, now = self.frontier, self.clock.seconds
        await frontier.set_host("h1.example", delay=3, concurrency=1, burst=1)
        await frontier.set_host("h2.example", paused=True)
        await frontier.set_host("h3.example", block_until=now + 600)
        await frontier.set_host("h5.example", crawl_delay=1.5)
        assert await frontier.keep_robots("https://h5.example/robots.txt", ROBOTS, fresh=7200, crawl_delay=2)
        assert await frontier.keep_robots("https://h6.example/", b"", fresh=7200)
        assert await frontier.keep_robots("https://h7.example/", None, fresh=7200, reason="connection refused")
        assert (await frontier.robots("https://h0.example/", lock=600)).state == "yours"
        await frontier.add_answers(
            {
                "h0.example": Answers(status_2xx=9, status_5xx=1, last=503, cpu=0.5),
                "h1.example": Answers(failed=4, last=None),
            }
        )

    async def write_leased(self):
        """A slowed host, a request that waits for its next attempt, and leases: one of them for a page that has landed."""
        frontier = self.frontier
        [slow, *_] = await self.claim_of("h7.example")
        await frontier.retry(slow, 1, reason="429 Too Many Requests", status=429, slow_host=True)
        [blocked] = await self.claim_of("h6.example")
        await frontier.retry(blocked, 700, reason="503 Service Unavailable", status=503, block_host=True)
        leases = await self.claim_of("h0.example", "h4.example", "lanes.example")
        landed = [lease for lease in leases if lease.host == "h4.example"]
        assert await frontier.vacate(landed) == []
        await frontier.mark_seen([b"\x02" * 20, b"\x03" * 20])
        return leases

    async def write_around(self):
        """Workers, history, audit, an inbox; and the crawl is paused."""
        frontier = self.frontier
        await frontier.join("m1-100", info={"host": "m1", "pid": 100, "in_flight": 3}, expires=3600)
        await frontier.join("m2-200", info={"host": "m2", "pid": 200}, expires=1)
        await frontier.join("m3-300")
        await frontier.leave("m3-300")
        assert await frontier.order("m1-100", "quiet")
        levels = Levels(ready=30, delayed=4, leased=3, done=11, dead=8, discarded=0, overflow=0)
        await frontier.add_history(Counts(pages=11, items=5, bytes=10**13, status_2xx=11, over_30s=1), levels)
        self.clock.advance(10)
        await frontier.add_history(Counts(pages=2, errors=1, fetch_ms=1500))
        await frontier.note_act("alice", "set_host", "h1.example")
        await frontier.note_act("bob", "pause")
        inbox = await frontier.inbox(INBOX, hold=600)
        assert len(await inbox.take(1)) == 1
        await frontier.pause()


async def described(frontier, sent):
    """What this version says about the crawl."""
    explained = {request.url: await frontier.explain(request) for request in sent}
    stats = await frontier.stats()
    return {
        "stats": msgspec.to_builtins(stats),
        "states": {url: str(told.state) for url, told in explained.items()},
        "dead": [
            [letter.url, letter.reason, letter.status, letter.attempts, letter.crashes, len(letter.history)]
            for letter in await frontier.dead()
        ],
        "reasons": [list(group) for group in await frontier.dead_groups()],
        "hosts": {
            host.host: list(host[1:13]) for host in await frontier.hosts(*HOSTS, "many.example", "lanes.example")
        },
        "workers": [list(worker) for worker in await frontier.workers()],
        "history": [
            [point.time, point.pages, point.bytes, point.errors, point.levels and msgspec.to_builtins(point.levels)]
            for point in await frontier.history(since=600)
            if point.pages
        ],
        "audit": [list(act) for act in await frontier.audit()],
        "sound": (await frontier.fsck()).sound,
    }


def text(value):
    """Bytes as JSON: text where that is what they are."""
    try:
        return value.decode("ascii")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def dump(client):
    """Every key, as its type, its milliseconds to live and its value."""
    keys = {}
    for key in sorted(client.keys("*")):
        kind = client.type(key).decode()
        if kind == "hash":
            value = [[text(field), text(stored)] for field, stored in sorted(client.hgetall(key).items())]
        elif kind == "zset":
            value = [[text(member), score] for member, score in client.zrange(key, 0, -1, withscores=True)]
        elif kind == "list":
            value = [text(stored) for stored in client.lrange(key, 0, -1)]
        elif kind == "set":
            value = sorted((text(member) for member in client.smembers(key)), key=str)
        else:
            value = text(client.get(key))
        keys[key.decode()] = {"type": kind, "expires": client.pttl(key) > 0, "value": value}
    return keys


async def write(folder, seen, shards):
    server, clock = Server("valkey").start(), Clock(START)
    per_host = None if seen == "compact" else PER_HOST  # with it, a page that has landed keeps its place
    first, budget = (Budget(pages=n, pages_per_host=per_host and per_host + n - 900, depth=9) for n in (950, 900))
    try:
        with server.client() as client:
            client.rpush(INBOX, "https://in.example/1", "https://in.example/2")
        settings = {"seen": seen, "shards": shards, "clock": clock, "budget": first}
        async with await Frontier.open(server.url, crawl=CRAWL, **settings) as frontier:
            writer = Writer(frontier, budget, clock)
            leases = await writer.write()
            told = await described(frontier, writer.sent)
        with server.client() as client:
            keys = dump(client)
    finally:
        server.remove()
    path = Path(folder) / f"crawl-{seen.partition(':')[0]}-{shards}.json"
    save(path, {
        "now": clock.now,
        "sent": msgspec.to_builtins(writer.sent),
        "leases": msgspec.to_builtins(leases),
        "told": told,
    }, keys)  # fmt: skip
    print(path.name, told["stats"], told["sound"])


def save(path, crawl, keys):
    """One line for each part, and one for each key."""
    program = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    parts = {"written_by": "6978f28", "program": program, **crawl}
    lines = [f"{json.dumps(name)}: {json.dumps(part)}" for name, part in parts.items()]
    inner = [f"{json.dumps(key)}: {json.dumps(stored)}" for key, stored in keys.items()]
    path.write_text("{" + ",\n".join([*lines, '"keys": {' + ",\n".join(inner) + "}"]) + "}\n")


if __name__ == "__main__":
    for kind in KINDS:
        asyncio.run(write(sys.argv[1], *kind))
