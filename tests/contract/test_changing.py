"""Budgets and capacities that are changed while a crawl runs."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Admission, Budget, Complete, Politeness, Release, Request
from silkline.errors import ConfigError
from silkline.frontier.admin_verbs.settings import set_budget
from silkline.frontier.transport.sync.connection import drive
from tests.contract.frontiers import page

SHARDS = pytest.mark.parametrize("shards", [1, 5])


async def work(frontier, most=1000):
    """Claim and complete until nothing is handed out any more; how many pages that were."""
    done = 0
    while leases := await frontier.claim(most):
        await frontier.settle([(lease, Complete()) for lease in leases])
        done += len(leases)
    return done


def pages(count, hosts=10):
    return [page(number, f"h{number % hosts}.example") for number in range(count)]


@SHARDS
async def test_a_budget_that_is_raised_lets_the_crawl_continue_to_it_and_no_further(shards, open_crawl):
    frontier = await open_crawl(budget=Budget(pages=3), shards=shards)
    other = await open_crawl(create=False, politeness=None)
    await frontier.enqueue(pages(40))
    assert await work(frontier) == 3
    assert await frontier.finished()
    await frontier.admin.set_budget(Budget(pages=20))
    assert not await other.finished()  # though it has not read the settings again
    assert await work(other, 7) + await work(frontier) == 17
    assert await frontier.finished()
    assert await other.finished()


@SHARDS
async def test_a_budget_can_be_taken_away_and_given_again(shards, open_crawl):
    frontier = await open_crawl(budget=Budget(pages=3), shards=shards)
    await frontier.enqueue(pages(20))
    leases = await frontier.claim(2)
    await frontier.admin.set_budget(Budget())
    assert len(leases) + await work(frontier, 4) == 20
    assert not await frontier.finished()
    await frontier.settle([(lease, Complete()) for lease in leases])
    await frontier.admin.set_budget(Budget(pages=25))
    await frontier.enqueue([page(f"more{number}", f"h{number}.example") for number in range(10)])
    other = await open_crawl(create=False, politeness=None)
    assert await work(frontier, 3) + await work(other) == 5
    assert (await frontier.admin.stats()).done == 25


@SHARDS
async def test_a_budget_that_is_lowered_stops_the_crawl_and_what_is_leased_completes(shards, open_crawl):
    frontier = await open_crawl(budget=Budget(pages=30), shards=shards)
    other = await open_crawl(create=False, politeness=None)
    await frontier.enqueue(pages(40))
    leases = await other.claim(6)
    await frontier.admin.set_budget(Budget(pages=4))
    assert await other.claim(10) == []
    await other.settle([(lease, Complete()) for lease in leases])
    assert await work(frontier) == 0
    assert await frontier.finished()
    await frontier.admin.set_budget(Budget(pages=8))
    assert await work(other) == 2


@SHARDS
async def test_what_was_leased_beyond_a_lower_budget_and_failed_is_not_claimed_again(shards, open_crawl):
    frontier = await open_crawl(budget=Budget(pages=30), shards=shards)
    await frontier.enqueue(pages(40))
    leases = await frontier.claim(9)
    await frontier.settle([(lease, Complete()) for lease in leases[:2]])
    await frontier.admin.set_budget(Budget(pages=5))
    await frontier.settle([(lease, Release()) for lease in leases[2:]])
    assert await work(frontier, 2) == 3
    assert (await frontier.admin.stats()).done == 5
    assert await frontier.finished()


@SHARDS
async def test_a_crawl_without_a_budget_gets_one(shards, open_crawl):
    frontier = await open_crawl(shards=shards)
    other = await open_crawl(create=False, politeness=None)
    await frontier.enqueue(pages(40))
    leases = await other.claim(5)
    await frontier.admin.set_budget(Budget(pages=9))
    assert await work(other, 2) == 4
    await other.settle([(lease, Complete()) for lease in leases])
    assert await work(frontier) == 0
    assert await frontier.finished()


async def test_many_clients_never_exceed_a_budget_that_changes_all_the_time(open_crawl):
    frontier = await open_crawl(budget=Budget(pages=5), shards=4)
    clients = [await open_crawl(create=False, politeness=None) for _ in range(4)]
    await frontier.enqueue(pages(400, hosts=40))

    async def worker(client):
        while True:
            leases = await client.claim(3)
            await asyncio.sleep(0)
            await client.settle([(lease, Complete()) for lease in leases])
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(worker(client)) for client in clients]
    try:
        for budget in (5, 40, 20, 90, 91, 120):
            before = (await frontier.admin.stats()).done
            await frontier.admin.set_budget(Budget(pages=budget))
            for _ in range(30):
                await asyncio.sleep(0)
                assert (await frontier.admin.stats()).done <= max(budget, before + 12)
        while (await frontier.admin.stats()).done < 120:  # noqa: ASYNC110 - the workers get there
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        assert (await frontier.admin.stats()).done == 120
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_pages_per_host_can_be_raised_while_hosts_are_at_their_cap(open_crawl):
    frontier = await open_crawl(budget=Budget(pages_per_host=2))
    await frontier.enqueue(pages(20, hosts=2))
    first = await frontier.claim(20)
    assert len(first) == 4
    await frontier.admin.set_budget(Budget(pages_per_host=3))
    second = await frontier.claim(20)
    assert len(second) == 2
    await frontier.settle([(lease, Complete()) for lease in first])
    await frontier.admin.set_budget(Budget(pages_per_host=5))
    third = await frontier.claim(20)
    assert len(third) == 4
    await frontier.settle([(lease, Complete()) for lease in second + third])
    stats = await frontier.admin.stats()
    assert (stats.done, stats.ready, stats.discarded) == (10, 0, 10)


async def test_pages_per_host_that_were_taken_away_are_still_counted(open_crawl):
    frontier = await open_crawl(budget=Budget(pages_per_host=2))
    await frontier.enqueue(pages(8, hosts=1))
    leases = await frontier.claim(20)
    await frontier.admin.set_budget(Budget())
    leases += await frontier.claim(3)
    assert len(leases) == 5
    await frontier.settle([(lease, Complete()) for lease in leases])
    await frontier.admin.set_budget(Budget(pages_per_host=6))
    assert await work(frontier) == 1


async def test_pages_per_host_that_nobody_counted_cannot_be_limited(open_crawl):
    frontier = await open_crawl()
    await frontier.enqueue(pages(4, hosts=1))
    await frontier.admin.set_budget(Budget(pages_per_host=3))  # nothing is claimed yet
    assert await work(frontier) == 3
    other = await open_crawl(crawl=f"{frontier.crawl}-2")
    await other.enqueue(pages(4, hosts=1))
    leases = await other.claim(2)
    await other.vacate(leases)  # they hold no place of their host, so nobody would count them
    with pytest.raises(ConfigError, match="by host"):
        await other.admin.set_budget(Budget(pages_per_host=3))
    await other.settle([(lease, Complete()) for lease in leases])
    with pytest.raises(ConfigError, match="by host"):
        await other.admin.set_budget(Budget(pages_per_host=3))
    assert (await open_crawl(crawl=other.crawl, create=False, politeness=None)).layout.settings.budget == Budget()


async def test_a_limit_that_one_shard_cannot_keep_is_set_on_none(open_crawl):
    frontier = await open_crawl(shards=5)
    hosts = {frontier.layout.shard_of(f"h{number}.example").number: f"h{number}.example" for number in range(40)}
    await frontier.enqueue(page("first", hosts.pop(4)))
    leases = await frontier.claim(1)
    await frontier.enqueue([page(number, host) for number in range(2) for host in hosts.values()])
    with pytest.raises(ConfigError, match="by host"):
        await frontier.admin.set_budget(Budget(pages=100, pages_per_host=1))
    other = await open_crawl(create=False, politeness=None)
    assert other.layout.settings.budget == Budget()
    await other.settle([(lease, Complete()) for lease in leases])
    assert await work(other) == 8


def test_a_limit_is_not_set_when_a_page_is_claimed_after_it_was_checked(open_sync):
    frontier = open_sync(politeness=Politeness(delay=0))
    frontier.enqueue(pages(4))
    leases = []

    def set_while_claiming():
        flow, answer = set_budget(frontier.layout, Budget(pages_per_host=3)), None
        while True:
            effect = flow.send(answer)
            if effect.script.name == "set_limits":
                leases.extend(frontier.claim(1))
            answer = yield effect

    with pytest.raises(ConfigError, match="by host"):
        drive(frontier._connection, set_while_claiming())
    assert len(leases) == 1


async def test_a_capacity_can_be_raised(open_crawl):
    frontier = await open_crawl(capacity=2)
    assert (await frontier.enqueue(pages(4))).count(Admission.FULL) == 2
    await frontier.admin.set_capacity(100)
    assert (await frontier.enqueue(pages(4))).count(Admission.FULL) == 0
    assert (await frontier.admin.stats()).capacity == 100
    with pytest.raises(ConfigError, match="at least 1"):
        await frontier.admin.set_capacity(0)


async def test_another_client_sees_what_was_changed_and_changes_something_else(open_crawl):
    frontier = await open_crawl(budget=Budget(depth=1))
    other = await open_crawl(create=False, politeness=None)
    await frontier.admin.set_budget(Budget(depth=3))
    await other.admin.set_politeness(Politeness(delay=7))
    await frontier.admin.set_capacity(9)
    await other.admin.set_dead_limit(8)
    for client in (frontier, other, await open_crawl(create=False, politeness=None)):
        await client.refresh()
        settings = client.layout.settings
        assert (settings.budget, settings.politeness) == (Budget(depth=3), Politeness(delay=7))
        assert (settings.capacity, settings.dead_limit) == (9, 8)
    assert await other.enqueue(Request("https://a.example/", depth=2)) == [Admission.ADDED]


async def test_what_several_clients_change_at_once_all_holds(open_crawl):
    """Each writes back all settings, so whoever read them before another wrote has to read them again."""
    frontier = await open_crawl(budget=Budget(depth=1))
    others = [await open_crawl(create=False, politeness=None) for _ in range(2)]
    for number in range(2, 12):
        await asyncio.gather(
            frontier.admin.set_budget(Budget(depth=number)),
            others[0].admin.set_politeness(Politeness(delay=number)),
            others[1].admin.set_capacity(number),
        )
        await frontier.refresh()
        settings = frontier.layout.settings
        assert (settings.budget.depth, settings.politeness.delay, settings.capacity) == (number, number, number)


@SHARDS
async def test_a_suspect_gets_a_page_of_the_budget_like_others(shards, open_crawl, clock):
    """On its shard nothing else waits that would ask for one."""
    frontier = await open_crawl(budget=Budget(pages=3), shards=shards)
    await frontier.enqueue(page(1))
    await frontier.claim()
    clock.advance(20)
    assert await frontier.claim(suspects="none") == []
    await frontier.admin.set_budget(Budget(pages=2))
    clock.advance(20)
    assert await work(frontier) == 1
    assert await frontier.finished()


async def test_how_many_pages_of_a_host_are_done_is_reported_whether_they_are_limited_or_not(open_crawl):
    frontier = await open_crawl(budget=Budget(pages_per_host=3))
    await frontier.enqueue(pages(2, hosts=1))
    assert await work(frontier) == 2
    assert (await frontier.admin.hosts("h0.example"))[0].pages == 2
    await frontier.admin.set_budget(Budget())
    assert (await frontier.admin.hosts("h0.example"))[0].pages == 2


@pytest.mark.parametrize(
    "state",
    [{}, {"paused": True}, {"block_until": 1_900_000_000}, {"delay": 1000}],
    ids=["ready", "paused", "blocked", "slow"],
)
async def test_a_lower_limit_of_pages_per_host_drops_what_no_claim_may_take(state, open_crawl):
    frontier = await open_crawl(budget=Budget(pages_per_host=5))
    await frontier.enqueue(pages(4, hosts=1))
    await frontier.settle([(lease, Complete()) for lease in await frontier.claim(2)])
    await frontier.admin.set_host("h0.example", **state)
    await frontier.admin.set_budget(Budget(pages_per_host=2))
    stats = await frontier.admin.stats()
    assert (stats.done, stats.ready, stats.discarded) == (2, 0, 2)
    assert (stats.hosts_ready, stats.hosts_waiting) == (0, 0)
    assert await frontier.finished()


async def test_a_lower_limit_of_pages_per_host_counts_what_is_leased(open_crawl):
    frontier = await open_crawl(budget=Budget(pages_per_host=5))
    await frontier.enqueue(pages(4, hosts=1))
    leases = await frontier.claim(2)
    await frontier.admin.set_budget(Budget(pages_per_host=2))
    assert (await frontier.admin.hosts("h0.example"))[0].place == "busy"
    await frontier.retry(leases[0])
    assert await work(frontier) == 1
