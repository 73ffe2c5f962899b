"""A run that fails removes the crawl that it has created, but no request that another process has enqueued."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from silkline import Request
from silkline.core.lease import State
from silkline.errors import SilklineError, UnknownCrawl

STARTS = ["https://a.example/", "https://b.example/", "https://a.example/"]


async def started(open_crawl):
    frontier = await open_crawl(shards=3)
    await frontier.enqueue(STARTS)
    return frontier


async def test_a_crawl_that_only_its_creator_uses_is_removed(open_crawl):
    frontier = await started(open_crawl)
    assert await frontier.internal.remove_unused("run", added=2, seen=1) is True
    with pytest.raises(UnknownCrawl):
        await frontier.admin.stats()


async def uses_nothing(frontier): ...


async def enqueues(frontier):
    await frontier.enqueue("https://c.example/")


async def enqueues_what_waits(frontier):
    await frontier.enqueue("https://b.example/")


async def delays(frontier):
    await frontier.enqueue(Request("https://c.example/", not_before=4e9))


async def claims(frontier):
    await frontier.claim(1)


async def joins(frontier):
    await frontier.internal.join("other")


async def pauses(frontier):
    await frontier.admin.pause()


@pytest.mark.parametrize("uses", [enqueues, enqueues_what_waits, delays, claims, joins, pauses])
async def test_one_that_another_process_uses_stays_as_it_is(open_crawl, uses):
    frontier = await started(open_crawl)
    await uses(frontier)
    before = await frontier.admin.stats()
    assert await frontier.internal.remove_unused("run", added=2, seen=1) is False
    assert (await frontier.admin.stats()).state == before.state
    await frontier.admin.resume()
    assert list(await frontier.enqueue("https://d.example/")) == ["added"]
    assert len(await frontier.claim(10)) == before.ready + 1


async def test_what_is_enqueued_at_that_moment_is_kept_or_refused(valkey, crawl, open_crawl, subject):
    if subject.__name__ != "Frontier":
        return  # the others cannot do two things at a time
    kept = 0
    for number in range(40):
        name = f"{crawl}-{number}"
        one, other = await open_crawl(crawl=name, shards=2), await open_crawl(crawl=name, shards=2)
        await one.enqueue(STARTS[:2])
        url = f"https://c.example/{number}"

        async def enqueue(frontier=other, url=url, pause=number / 20_000):
            await asyncio.sleep(pause)
            try:
                return "added" in list(await frontier.enqueue(url))
            except SilklineError:
                return False

        removal = partial(one.internal.remove_unused, "run", added=2, seen=0)
        if number == 0:  # on a busy machine, the others may all come too late
            added, removed = await enqueue(), await removal()
        else:
            added, removed = await asyncio.gather(enqueue(), removal())
        assert not (added and removed)
        if added:
            kept += 1
            assert (await one.admin.explain(url)).state is State.READY
    assert kept
