"""What is claimed for a spider is held by it, and so given back when it closes."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("scrapy")

from silkline.frontier.frontier import Frontier
from silkline.scrapy.intake import Intake
from silkline.scrapy.options import Options
from silkline.scrapy.patience import Patience


async def test_what_a_claim_brings_in_the_moment_in_which_the_spider_closes_is_held(valkey, crawl, monkeypatch):
    loop, held = asyncio.get_running_loop(), {}
    async with await Frontier.open(valkey.url, crawl=crawl) as frontier:
        await frontier.enqueue(f"https://h{number}.example/" for number in range(5))
        claim = frontier.claim

        async def and_close(*args, **options):
            leases = await claim(*args, **options)
            loop.call_soon(task.cancel)  # before the intake knows of them
            return leases

        monkeypatch.setattr(frontier, "claim", and_close)
        options = Options(url=valkey.url, crawl=crawl)
        intake = Intake(loop, Patience(), held, lambda: None, lambda lease: None, options)
        task = asyncio.create_task(intake.run(frontier))
        with pytest.raises(asyncio.CancelledError):
            await task
        stats = await frontier.stats()
        assert stats.leased == len(held) == 5
