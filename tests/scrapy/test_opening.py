"""How a worker enters a crawl that somebody removes."""

from __future__ import annotations

import asyncio

from silkline import Frontier
from silkline.scrapy import opening
from silkline.scrapy.options import Options


async def test_a_worker_that_comes_while_the_last_one_removes_the_crawl_gets_a_new_one(valkey, crawl):
    async with await Frontier.open(valkey.url, crawl=crawl) as last:
        await last.enqueue("https://a.example/")
        assert await last.leave("last", shut=True) == 0
        entering = asyncio.create_task(opening.open_frontier(Options(url=valkey.url, crawl=crawl), "new"))
        await asyncio.sleep(0.3)
        assert not entering.done()
        await last.remove()
    frontier, waiting = await entering
    async with frontier:
        assert waiting == 0
        assert [worker.name for worker in await frontier.workers()] == ["new"]
        assert await frontier.enqueue("https://a.example/") == ["added"]


async def test_if_that_one_died_the_next_one_removes_it(valkey, crawl, monkeypatch):
    monkeypatch.setattr(opening, "REMOVED_WITHIN", 0.3)
    async with await Frontier.open(valkey.url, crawl=crawl) as last:
        await last.enqueue("https://a.example/")
        await last.leave("last", shut=True)
    frontier, waiting = await opening.open_frontier(Options(url=valkey.url, crawl=crawl), "new")
    async with frontier:
        assert waiting == 0
        assert await frontier.enqueue("https://a.example/") == ["added"]
