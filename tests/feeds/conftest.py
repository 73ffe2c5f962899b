"""Feeds of every kind of key, on every kind of server."""

from __future__ import annotations

import asyncio
import json

import pytest

from silkline import Complete, Frontier, Politeness
from silkline.worker.feeds.feeder import Feeding
from silkline.worker.feeds.file_feed import FileFeed
from silkline.worker.feeds.redis_key import RedisFeed

AT_ONCE = Politeness(delay=0, concurrency=10_000)
FILL = {
    "list": lambda client, key, entries: client.rpush(key, *entries),
    "set": lambda client, key, entries: client.sadd(key, *entries),
    "zset": lambda client, key, entries: client.zadd(key, {entry: -number for number, entry in enumerate(entries)}),
    "stream": lambda client, key, entries: [client.xadd(key, {"entry": entry}) for entry in entries],
}


def entry(url, **fields):
    return json.dumps({"url": url, **fields})


class Fed:
    """A crawl with one feed, which this process feeds."""

    def __init__(self, frontier, client, key):
        self.frontier = frontier
        self.client = client
        self.key = key
        self.feeding = None

    async def feed(self, *, hold=10.0, until=None, file=None):
        """Feed until nothing is left in the key or file, or until something else holds."""
        if file:
            source = FileFeed(str(file), self.frontier, ttl=hold)
        else:
            source = RedisFeed.open(self.key, self.frontier, hold=hold)
        self.feeding = Feeding(self.frontier, [source], ["page", "product"])
        running = asyncio.create_task(self.feeding.run())
        while not await (until or source.ended)():
            assert not running.done(), await running
            await asyncio.sleep(0.01)
        self.feeding.stop()
        await running

    async def claimed(self):
        """All requests of the crawl, which are completed."""
        found = []
        while leases := await self.frontier.claim(1000):
            found += leases
            await self.frontier.settle([(lease, Complete()) for lease in leases])
        return found

    async def urls(self):
        return [lease.url for lease in await self.claimed()]

    async def reasons(self):
        return sorted(letter.reason for letter in await self.frontier.admin.dead(limit=1000))


@pytest.fixture
async def fed(any_server, crawl):
    """Makes crawls with a feed, on each kind of server."""
    opened = []

    async def make(**settings):
        arguments = {"politeness": AT_ONCE, **settings}
        name = f"{crawl}-{len(opened)}"
        frontier = await Frontier.open(any_server.url, crawl=name, **arguments)
        opened.append(Fed(frontier, any_server.client(), f"{name}:feed"))
        return opened[-1]

    make.server = any_server
    yield make
    for one in opened:
        await one.frontier.close()
        one.client.close()
