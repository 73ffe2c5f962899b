"""How a worker enters a crawl that somebody removes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from silkline import Frontier, Politeness
from silkline.frontier.transport.redis_url import read_url
from silkline.scrapy.bridge import opening
from silkline.scrapy.convert.settings import PluginOptions


async def test_a_worker_that_comes_while_the_last_one_removes_the_crawl_gets_a_new_one(valkey, crawl):
    async with await Frontier.open(valkey.url, crawl=crawl) as last:
        await last.enqueue("https://a.example/")
        assert await last.internal.leave("last", shut=True) == 0
        entering = asyncio.create_task(opening.open_frontier(PluginOptions(url=valkey.url, crawl=crawl), "new"))
        await asyncio.sleep(0.3)
        assert not entering.done()
        await last.admin.remove()
    frontier, stats, others = await entering
    async with frontier:
        assert (stats.pending, others) == (0, 0)
        assert [worker.name for worker in await frontier.admin.workers()] == ["new"]
        assert await frontier.enqueue("https://a.example/") == ["added"]


async def test_if_that_one_died_the_next_one_removes_it(valkey, crawl, monkeypatch):
    monkeypatch.setattr(opening, "REMOVAL_TIMEOUT", 0.3)
    async with await Frontier.open(valkey.url, crawl=crawl) as last:
        await last.enqueue("https://a.example/")
        await last.internal.leave("last", shut=True)
    frontier, stats, _ = await opening.open_frontier(PluginOptions(url=valkey.url, crawl=crawl), "new")
    async with frontier:
        assert stats.pending == 0
        assert await frontier.enqueue("https://a.example/") == ["added"]


async def test_one_line_names_server_crawl_size_and_pace(valkey, crawl):
    slow = PluginOptions(url=valkey.url, crawl=crawl, politeness=Politeness(delay=0.5, concurrency=8))
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=slow.politeness) as frontier:
        await frontier.enqueue([f"https://a.example/{number}" for number in range(1200)])
        await frontier.internal.join("other")
    opened = await opening.open_frontier(slow, "new")
    async with opened.frontier:
        said = opening.describe(slow, opened)
    assert said.startswith(
        f"Silkline uses the crawl '{crawl}' on {read_url(valkey.url).public}: 1,200 requests waiting, 1,200 seen (exact filter), "
        "1 other worker. All workers together make at most 8 requests at once to a site, with a delay of 0.5 s, so more"
    )
    alone = replace(slow, cluster_wide=False, url="redis://user:secret@r:1/0")
    said = opening.describe(alone, opened)
    assert "on redis://***@r:1/0: " in said
    assert "secret" not in said
    assert "Each worker keeps DOWNLOAD_DELAY" in said


async def test_a_spider_that_joins_a_crawl_with_other_settings_keeps_what_is_stored(valkey, crawl, caplog):
    """It changes the politeness, which can be changed, and names what cannot."""
    created = {"seen": "compact", "order": "lifo", "politeness": Politeness(delay=2)}
    async with await Frontier.open(valkey.url, crawl=crawl, **created) as first:
        await first.enqueue("https://a.example/")
        options = PluginOptions(url=valkey.url, crawl=crawl, seen="exact", politeness=Politeness(delay=0.5))
        with caplog.at_level("INFO"):
            frontier, stats, _ = await opening.open_frontier(options, "spider")
        async with frontier:
            stored = frontier.layout.settings
        assert (str(stored.seen), stored.order, stored.politeness) == ("compact", "lifo", Politeness(delay=0.5))
        assert stats.pending == 1
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"the crawl '{crawl}' was created with other settings, which stay in effect: " in warning
    assert "seen" in warning
    assert "order" in warning
    assert "SCHEDULER_FLUSH_ON_START=True" in warning
    assert f"the politeness of the crawl '{crawl}' was changed from" in caplog.text
