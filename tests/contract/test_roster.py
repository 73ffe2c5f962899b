"""A crawl knows who works on it."""

from __future__ import annotations

import pytest

from silkline.errors import ConfigError, UnknownCrawl


def names(workers, *, alive=True):
    return [worker.name for worker in workers if worker.alive is alive]


async def test_each_learns_how_many_others_there_are(frontier, open_crawl):
    other = await open_crawl()
    assert await frontier.internal.join("one") == 0
    assert await other.internal.join("two") == 1
    assert await frontier.internal.join("one") == 1
    assert await frontier.internal.leave("one") == 1
    assert await other.internal.leave("two") == 0
    assert await other.internal.leave("two") == 0
    assert await frontier.admin.workers() == []


async def test_the_last_to_leave_may_shut_the_door_until_the_crawl_is_made_again(frontier, open_crawl):
    await frontier.internal.join("one")
    await frontier.internal.join("two")
    assert await frontier.internal.leave("one", shut=True) == 1
    assert await frontier.internal.join("one") == 1
    await frontier.internal.leave("one")
    assert await frontier.internal.leave("two", shut=True) == 0
    with pytest.raises(UnknownCrawl, match="being removed"):
        await frontier.internal.join("three")
    await frontier.admin.remove()
    again = await open_crawl()
    assert await again.internal.join("three") == 0


async def test_one_that_falls_silent_counts_no_longer_and_is_reported_for_an_hour(frontier, clock):
    await frontier.internal.join("one", expires=30)
    clock.advance(20)
    await frontier.internal.join("two", expires=30)
    clock.advance(10)
    assert await frontier.internal.join("two", expires=30) == 0
    workers = await frontier.admin.workers()
    assert names(workers) == ["two"]
    assert names(workers, alive=False) == ["one"]
    assert await frontier.internal.join("one") == 1
    assert names(await frontier.admin.workers()) == ["two", "one"]
    clock.advance(3629.999)
    await frontier.internal.join("two")
    assert names(await frontier.admin.workers(), alive=False) == ["one"]
    clock.advance(0.001)
    await frontier.internal.join("two")
    assert names(await frontier.admin.workers(), alive=False) == []


async def test_what_a_worker_reports_of_itself_is_kept_until_it_reports_more(frontier, clock):
    await frontier.internal.join("one", info={"host": "ä", "pid": 7, "in_flight": 0, "tags": ["x", None]})
    [worker] = await frontier.admin.workers()
    assert worker.info == {"host": "ä", "pid": 7, "in_flight": 0, "tags": ["x", None]}
    began = clock.now / 1000
    clock.advance(5)
    await frontier.internal.join("one")
    [worker] = await frontier.admin.workers()
    assert (worker.joined, worker.beat, worker.info["pid"]) == (began, began + 5, 7)
    await frontier.internal.join("one", info={"pid": 8})
    [worker] = await frontier.admin.workers()
    assert worker.info == {"pid": 8}


async def test_those_known_last_come_first_and_a_limit_holds(frontier, clock):
    for number in range(5):
        await frontier.internal.join(f"w{number}")
        clock.advance(1)
    assert names(await frontier.admin.workers(limit=3)) == ["w4", "w3", "w2"]


async def test_of_a_removed_crawl_nobody_is_known(frontier, open_crawl):
    await frontier.internal.join("one")
    await frontier.admin.remove()
    for call in (frontier.internal.join("one"), frontier.internal.leave("one"), frontier.admin.workers()):
        with pytest.raises(UnknownCrawl):
            await call
    again = await open_crawl()
    assert await again.admin.workers() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"worker": ""},
        {"worker": "x" * 201},
        {"worker": None},
        {"expires": 0},
        {"expires": "long"},
        {"info": {"x": object()}},
        {"info": {"x": "y" * 8000}},
    ],
)
async def test_nonsense_is_refused(frontier, wrong):
    with pytest.raises(ConfigError):
        await frontier.internal.join(**{"worker": "one", **wrong})
    assert await frontier.admin.workers() == []


async def test_a_worker_learns_what_it_must_do_until_it_leaves(frontier):
    await frontier.internal.join("one")
    assert await frontier.internal.ordered("one") == "work"
    for order in ("quiet", "stop", "work", "quiet"):
        assert await frontier.admin.order("one", order)
        assert await frontier.internal.ordered("one") == order
    assert await frontier.internal.ordered("two") == "work"
    await frontier.internal.leave("one")
    assert await frontier.internal.ordered("one") == "work"
    await frontier.internal.join("one")
    assert await frontier.internal.ordered("one") == "work"


async def test_nobody_can_order_one_who_is_not_there_or_something_unheard_of(frontier):
    assert not await frontier.admin.order("nobody", "stop")
    await frontier.internal.join("one")
    with pytest.raises(ConfigError, match="work, quiet, stop"):
        await frontier.admin.order("one", "dance")


@pytest.mark.parametrize("limit", [0, -1, 1001, "all"])
async def test_a_limit_is_a_number(frontier, limit):
    with pytest.raises(ConfigError):
        await frontier.admin.workers(limit=limit)
