"""The outbox alone, with a real frontier."""

from __future__ import annotations

import asyncio

from silkline import Bury, Complete, Frontier, Politeness
from silkline.scrapy.outbox import UNTOLD, Outbox
from silkline.scrapy.patience import Patience


async def test_one_verdict_that_cannot_be_told_holds_up_no_other(valkey, crawl):
    pace = Politeness(delay=0, concurrency=9)
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=pace) as frontier:
        await frontier.enqueue([f"https://e.example/{number}" for number in range(9)])
        leases = await frontier.claim(9)
        held, loop, news = dict.fromkeys(leases), asyncio.get_running_loop(), []
        outbox = Outbox(loop, loop.call_soon, Patience(), held, news.append, lambda: None)
        for number, lease in enumerate(leases):
            verdict = Bury("broken", None, b"no text") if number == 4 else Complete([f"https://e.example/of/{number}"])
            outbox.settle(lease, verdict, hurry=False)
        outbox.close()
        await outbox.run(frontier)
        stats = await frontier.stats()
        assert (stats.done, stats.dead, stats.leased, stats.ready) == (8, 1, 0, 8)
        [letter] = await frontier.dead()
        assert (letter.url, letter.reason) == (leases[4].url, UNTOLD)
    assert held == {}
