"""Which lease has a place of its host, and which one takes it over. The server learns of it before a verdict is sent."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Politeness
from silkline.errors import StoreUnavailable
from silkline.frontier.frontier import Frontier
from silkline.runtime import places as module
from silkline.runtime.leases import Vacater
from silkline.runtime.places import Places

HOST = "a.example"


@pytest.fixture
async def frontier(valkey, crawl):
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0, concurrency=2)) as frontier:
        await frontier.enqueue([f"https://{HOST}/{number}" for number in range(9)])
        yield frontier


async def at_cap(frontier, places, reserve=2):
    places.add(taken := await frontier.claim(9))
    places.add(waiting := await frontier.claim(9, reserve={HOST: reserve}))
    assert (len(taken), len(waiting)) == (2, reserve)
    return [*taken, *waiting]


async def counted(frontier):
    [host] = await frontier.admin.hosts(HOST)
    return host.leased


async def test_a_place_goes_from_page_to_page_and_the_server_counts_each_once(frontier):
    places = Places()
    one, two, three, four = await at_cap(frontier, places)
    assert places.limit(HOST) == 2
    assert not places.downloaded(one)
    assert not places.downloaded(one)
    assert not places.downloaded(three)
    assert places.limit(HOST) is None  # nothing is in reserve any more
    assert places.downloaded(two)  # so its place is free once the server knows
    await places.report(frontier)
    await frontier.complete(one)
    await frontier.complete(three)
    assert await counted(frontier) == 2
    await frontier.complete(two)
    assert await counted(frontier) == 1
    assert places.downloaded(four)
    await frontier.complete(four)
    assert await counted(frontier) == 0


async def test_one_in_reserve_that_is_downloaded_first_leaves_the_place_as_it_is(frontier):
    places = Places()
    one, two, three, _ = await at_cap(frontier, places)
    assert not places.downloaded(three)  # the downloader has sent it before one of the others
    await places.report(frontier)
    await frontier.complete(three)
    assert await counted(frontier) == 2
    assert places.limit(HOST) == 2
    assert not places.downloaded(one)
    places.drop([two])
    assert places.limit(HOST) is None


async def test_what_was_lost_or_given_back_is_forgotten(frontier):
    places = Places()
    one, two, three, four = await at_cap(frontier, places)
    places.drop([one, three])
    assert places.limit(HOST) == 1
    assert not places.downloaded(two)
    places.drop([four])
    assert places.wanted(9) == {}


async def test_a_place_is_freed_after_a_while_so_that_other_processes_get_it(frontier, monkeypatch):
    places = Places()
    one, two, three, four = await at_cap(frontier, places)
    monkeypatch.setattr(module, "KEEP", 0.0)
    assert places.downloaded(one)
    assert places.limit(HOST) == 1
    assert not places.downloaded(two)  # the last one is kept while requests are in reserve
    assert places.limit(HOST) == 1
    assert not places.downloaded(three)
    assert places.wanted(9) == {}  # but no more are leased for it
    assert places.downloaded(four)


async def test_no_more_are_downloaded_at_a_time_than_there_are_places(frontier):
    places = Places()
    one, two, three, four = await at_cap(frontier, places)
    assert [places.start(lease) for lease in (one, three, two, four)] == [True, True, False, False]
    assert not places.downloaded(three)
    assert [places.start(lease) for lease in (two, four)] == [True, False]
    places.drop([one, two, three, four])
    assert places.start(two)


async def test_what_comes_when_the_place_is_gone_is_given_back(frontier):
    places = Places()
    assert places.add(taken := await frontier.claim(9)) == []
    late = await frontier.claim(9, reserve={HOST: 1})
    assert [places.downloaded(lease) for lease in taken] == [True, True]
    assert places.add(late) == list(late)
    assert places.limit(HOST) is None


async def test_as_many_are_wanted_in_reserve_as_there_are_places(frontier):
    places = Places()
    places.add(await frontier.claim(9))
    assert places.wanted(9) == {HOST: 2}
    assert places.wanted(1) == {HOST: 1}
    assert places.wanted(0) == {}
    places.add(await frontier.claim(9, reserve={HOST: 2}))
    assert places.wanted(9) == {}


async def test_what_could_not_be_reported_is_reported_next_time_in_its_order(frontier, monkeypatch):
    places = Places()
    one, _, three, _ = await at_cap(frontier, places)
    sent = []
    hand_over = frontier.internal.hand_over

    async def fail(pairs):
        sent.append(pairs)
        if len(sent) == 1:
            places.downloaded(three)
            raise StoreUnavailable("the server is unreachable")
        await hand_over(pairs)

    monkeypatch.setattr(frontier.internal, "hand_over", fail)
    places.downloaded(one)
    await places.report(frontier)
    await places.report(frontier)
    assert [lease.url[-1] for lease, _ in sent[1]] == ["0", "2"]
    await frontier.complete(one)
    await frontier.complete(three)
    assert await counted(frontier) == 2


async def test_a_place_that_was_handed_over_is_freed_though_no_page_is_settled(frontier):
    """Callbacks may wait for each other."""
    places = Places()
    one, two, three, four = await at_cap(frontier, places)
    vacated = asyncio.Event()
    vacater = Vacater(lambda: True, linger=lambda: 0.0, report=places.report, vacated=vacated.set)
    task = asyncio.create_task(vacater.run(frontier))
    for lease in (one, two):
        assert not places.downloaded(lease)
    for lease in (three, four):
        assert places.downloaded(lease)
        vacater.downloaded(lease)
    await asyncio.wait_for(vacated.wait(), 100)
    assert await counted(frontier) == 0
    task.cancel()


async def test_two_tasks_report_one_after_the_other(frontier, monkeypatch):
    places = Places()
    one, _, three, _ = await at_cap(frontier, places)
    hand_over, sending, go = frontier.internal.hand_over, asyncio.Event(), asyncio.Event()

    async def wait(pairs):
        sending.set()
        await go.wait()
        await hand_over(pairs)

    monkeypatch.setattr(frontier.internal, "hand_over", wait)
    places.downloaded(one)
    first = asyncio.create_task(places.report(frontier))
    await sending.wait()
    second = asyncio.create_task(places.report(frontier))
    await asyncio.sleep(0)
    assert not second.done()
    go.set()
    await asyncio.gather(first, second)
    await frontier.complete(one)
    assert await counted(frontier) == 2
    await frontier.complete(three)
