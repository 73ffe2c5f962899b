"""A consumer may come before the process that creates the crawl, and decides on its settings."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Frontier, Politeness, SyncFrontier
from silkline.errors import ConfigError, SettingsConflict, UnknownCrawl
from silkline.testing import MemoryFrontier

THEIRS = Politeness(delay=0.25)


async def open_sync(url, **arguments):
    return await asyncio.to_thread(SyncFrontier.open, url, **arguments)


@pytest.mark.parametrize("opens", [Frontier.open, open_sync, MemoryFrontier.open])
async def test_a_consumer_waits_for_the_crawl_and_has_the_settings_of_its_producer(valkey, crawl, opens):
    with pytest.raises(UnknownCrawl):
        await opens(valkey.url, crawl=crawl, create=False, wait=0.05)
    with pytest.raises(ConfigError, match="wait must be at least 0"):
        await opens(valkey.url, crawl=crawl, create=False, wait=-1)
    waiting = asyncio.create_task(opens(valkey.url, crawl=crawl, create=False, wait=60))
    await asyncio.sleep(0)
    producer = await opens(valkey.url, crawl=crawl, politeness=THEIRS)
    async with asyncio.timeout(30):
        consumer = await waiting
    assert consumer.layout.settings.politeness == THEIRS
    for frontier in (consumer, producer):
        closed = frontier.close()
        if closed:
            await closed


@pytest.mark.parametrize("opens", [Frontier.open, open_sync, MemoryFrontier.open])
async def test_the_first_process_that_names_a_politeness_decides_on_it(valkey, crawl, opens):
    consumer = await opens(valkey.url, crawl=crawl)
    with pytest.raises(SettingsConflict, match="shards is 1, not 4"):
        await opens(valkey.url, crawl=crawl, politeness=THEIRS, shards=4)
    producer = await opens(valkey.url, crawl=crawl, politeness=THEIRS)
    assert producer.layout.settings.politeness == THEIRS
    with pytest.raises(SettingsConflict, match="politeness is"):
        await opens(valkey.url, crawl=crawl, politeness=Politeness())
    late = await opens(valkey.url, crawl=crawl)
    assert late.layout.settings.politeness == THEIRS
    for frontier in (consumer, producer, late):
        closed = frontier.close()
        if closed:
            await closed
