"""The outbox alone, with a real frontier."""

from __future__ import annotations

import asyncio

from silkline import Bury, Complete, Frontier, Politeness
from silkline.runtime.leases import HeldLeases
from silkline.runtime.places import Places
from silkline.runtime.settling import UNSETTLED, Retrier
from silkline.scrapy.bridge.outbox import Outbox


async def test_one_verdict_that_cannot_be_reported_holds_up_no_other(valkey, crawl):
    pace = Politeness(delay=0, concurrency=9)
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=pace) as frontier:
        await frontier.enqueue([f"https://e.example/{number}" for number in range(9)])
        leases = await frontier.claim(9)
        held, loop, report = HeldLeases(), asyncio.get_running_loop(), []
        held.hold(leases)
        ended = []
        outbox = Outbox(loop, loop.call_soon, Retrier(), held, Places(), report.append, ended.extend)
        for number, lease in enumerate(leases):
            verdict = Bury("broken", None, b"no text") if number == 4 else Complete([f"https://e.example/of/{number}"])
            outbox.settle(lease, verdict, hurry=False)
        outbox.close()
        await outbox.run(frontier)
        stats = await frontier.admin.stats()
        assert (stats.done, stats.dead, stats.leased, stats.ready) == (8, 1, 0, 8)
        [letter] = await frontier.admin.dead()
        assert letter.url == leases[4].url
        assert letter.reason.startswith(UNSETTLED)
        assert (outbox.counts.ended, outbox.counts.buried, outbox.counts.lost) == (9, 1, 0)
    assert len(held) == 0
    assert sorted(ended, key=leases.index) == list(leases)
