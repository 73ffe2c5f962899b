"""How much work could be under way, and how long it waits; and what the frontier counts of its refusals."""

from __future__ import annotations

import pytest

from silkline import Complete, LeaseLost, Politeness, Request
from tests.contract.frontiers import page


async def test_a_crowd_on_one_polite_host_is_work_for_one(open_bare):
    frontier = await open_bare(politeness=Politeness(delay=1, concurrency=1))
    await frontier.enqueue([page(number) for number in range(500)])
    demand = await frontier.admin.demand()
    assert (demand.open_hosts, demand.may_start, demand.useful) == (1, 1, 1)
    await frontier.claim(100)
    demand = await frontier.admin.demand()
    assert (demand.open_hosts, demand.may_start, demand.leased, demand.useful) == (0, 0, 1, 1)


async def test_caps_and_backlogs_say_what_may_start(open_bare):
    frontier = await open_bare(politeness=Politeness(delay=0, concurrency=3))
    await frontier.enqueue([page(number, "many.example") for number in range(10)])
    await frontier.enqueue([page(number, "few.example", priority=5) for number in range(2)])
    await frontier.enqueue(page(1, "paused.example"))
    await frontier.admin.pause("paused.example")
    assert (await frontier.admin.demand()).useful == 5
    await frontier.claim(4)
    demand = await frontier.admin.demand()
    assert (demand.may_start, demand.leased, demand.useful) == (1, 4, 5)


async def test_a_paused_crawl_has_nothing_to_give(frontier):
    await frontier.enqueue([page(1), page(2)])
    await frontier.admin.pause()
    assert (await frontier.admin.demand()).may_start == 0


async def test_of_many_hosts_some_speak_for_all(open_bare):
    frontier = await open_bare(politeness=Politeness(delay=0, concurrency=2))
    await frontier.enqueue([page(number, f"h{host}.example") for host in range(1500) for number in range(5)])
    demand = await frontier.admin.demand()
    assert demand.open_hosts == 1500
    assert demand.useful == 3000


async def test_the_oldest_that_could_be_claimed_ages_until_it_is(frontier, clock):
    assert (await frontier.admin.demand()).oldest == 0
    await frontier.enqueue(page(1, "a.example"))
    clock.advance(30)
    await frontier.enqueue([page(1, "b.example"), page(1, "c.example", priority=9)])
    clock.advance(10)
    assert (await frontier.admin.demand()).oldest == pytest.approx(40, abs=1.5)
    leases = await frontier.claim(2)  # c for its priority, then a
    assert {lease.host for lease in leases} == {"c.example", "a.example"}
    assert (await frontier.admin.demand()).oldest == pytest.approx(10, abs=1.5)
    await frontier.claim()
    assert (await frontier.admin.demand()).oldest == 0


async def test_the_age_stays_true_for_hours_under_traffic(frontier, clock):
    await frontier.enqueue(page(1, "old.example", priority=-1))
    for number in range(400):
        clock.advance(20)
        await frontier.enqueue(page(number, f"h{number}.example"))
        await frontier.claim()
    assert (await frontier.admin.demand()).oldest == pytest.approx(8000, rel=0.02)


async def test_what_is_overdue_ages_too(open_bare, clock):
    frontier = await open_bare(politeness=Politeness(delay=2, concurrency=5))
    await frontier.enqueue([page(1), page(2)])
    await frontier.claim()
    clock.advance(7)  # its host opened five seconds ago, and nobody looked
    assert (await frontier.admin.demand()).oldest == pytest.approx(5, abs=1)
    await frontier.enqueue(Request("https://b.example/", not_before=clock.now / 1000 + 1))
    clock.advance(9)
    assert (await frontier.admin.demand()).oldest == pytest.approx(14, abs=1)


async def test_duplicates_refusals_for_room_and_late_endings_are_counted(open_crawl, clock):
    frontier = await open_crawl(capacity=2)
    await frontier.enqueue([page(1), page(1), page(2), page(3), page(2)])
    stats = await frontier.admin.stats()
    assert (stats.duplicates, stats.turned_away, stats.late) == (2, 1, 0)
    [lease] = await frontier.claim(lease=1)
    clock.advance(2)
    [again] = await frontier.claim(lease=100)
    assert again.url == lease.url
    with pytest.raises(LeaseLost):
        await frontier.complete(lease)
    assert (await frontier.settle([(lease, Complete()), (again, Complete())])).lost == [lease]
    assert (await frontier.admin.stats()).late == 2
