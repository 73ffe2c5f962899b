"""Feeds of a million entries, entries of 100 megabytes, and how soon an entry is claimed."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys

import pytest

from silkline import Frontier, Politeness, SyncFrontier
from silkline.worker.feeds import feeder
from silkline.worker.feeds.feeder import Feeding
from silkline.worker.feeds.redis_key import RedisFeed
from tests.feeds import feeding_process

MEGABYTE = 2**20


def feed(server, crawl, name):
    """Feed in another process, and return by how much its memory has grown."""
    command = [sys.executable, feeding_process.__file__, server.url, crawl, name]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


@pytest.fixture
def large(own_server, crawl):
    """A server for large data, and a crawl on it."""
    server = own_server()
    with SyncFrontier.open(server.url, crawl=crawl, seen="compact") as frontier, server.client() as client:
        yield server, frontier, client


async def test_an_entry_is_found_by_the_next_look_and_claimed_at_once(valkey, crawl):
    """From push to claim, a feed is read twice at most; reads of an empty feed are less than half a second apart."""
    assert feeder.LOOK_EVERY < 0.5
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0)) as frontier:
        with valkey.client() as client:
            looks, key, dice = 0, f"{crawl}:feed", random.Random(3)
            source = RedisFeed.open(key, frontier)
            take = source.take

            async def counted(n):
                nonlocal looks
                looks += 1
                return await take(n)

            source.take = counted
            feeding = Feeding(frontier, [source], ["page"])
            running = asyncio.create_task(feeding.run())
            for number in range(8):
                await asyncio.sleep(dice.uniform(0, feeder.LOOK_EVERY))
                claiming = asyncio.create_task(frontier.claim(1, wait=30))
                before = looks
                client.lpush(key, f"https://a.example/{number}")
                [lease] = await claiming
                assert looks - before <= 2
                await frontier.complete(lease)
            feeding.stop()
            await running


@pytest.mark.parametrize("kind", ["list", "file"])
def test_an_entry_of_100_megabytes_becomes_a_dead_letter_in_bounded_memory(large, crawl, tmp_path, kind):
    server, frontier, client = large
    entry = b"x" * (100 * MEGABYTE)
    file = tmp_path / "urls.txt"
    if kind == "list":
        client.rpush("feed", entry, "https://a.example/1")
    else:
        file.write_bytes(entry + b"\nhttps://a.example/1\n")
    grown = feed(server, crawl, "redis:feed" if kind == "list" else str(file))
    assert grown < 30 * MEGABYTE
    assert frontier.admin.stats().ready == 4001
    [letter] = frontier.admin.dead()
    assert "it has 104,857,600 bytes, the limit is 1,048,576" in letter.reason


@pytest.mark.long
@pytest.mark.parametrize("kind", ["list", "file"])
def test_a_million_entries_are_fed_in_bounded_memory(large, crawl, tmp_path, kind):
    server, frontier, client = large
    urls = [f"https://h{number % 1000}.example/products/{number}" for number in range(1_000_000)]
    file = tmp_path / "urls.txt"
    if kind == "list":
        for start in range(0, len(urls), 10_000):
            client.rpush("feed", *urls[start : start + 10_000])
    else:
        file.write_text("\n".join(urls))
    grown = feed(server, crawl, "redis:feed" if kind == "list" else str(file))
    assert grown < 60 * MEGABYTE
    stats = frontier.admin.stats()
    assert (stats.accepted, stats.ready, stats.duplicates) == (1_004_000, 1_004_000, 0)
    assert client.exists("feed") == 0
