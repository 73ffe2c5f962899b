"""In which order requests are handed out."""

from __future__ import annotations

import pytest

from silkline import Politeness, Release, RetryIn
from tests.contract.frontiers import hosts_of, page, paths, urls


async def test_higher_priorities_come_first(frontier):
    await frontier.enqueue([page(number, priority=number) for number in (0, -5, 1000, 3, -1000)])
    assert paths(await frontier.claim(10)) == ["1000", "3", "0", "-5", "-1000"]


async def test_higher_priorities_come_first_across_hosts(frontier):
    await frontier.enqueue(
        [page("a0"), page("b5", "b.example", priority=5), page("c-5", "c.example", priority=-5), page("a7", priority=7)]
    )
    assert [path for _ in range(4) for path in paths(await frontier.claim())] == ["a7", "b5", "a0", "c-5"]


async def test_inside_a_priority_the_oldest_comes_first(frontier):
    await frontier.enqueue([page(number) for number in range(5)])
    await frontier.enqueue([page(number) for number in range(5, 8)])
    assert paths(await frontier.claim(4)) == ["0", "1", "2", "3"]
    assert paths(await frontier.claim(10)) == ["4", "5", "6", "7"]


async def test_with_lifo_the_newest_comes_first(open_crawl):
    frontier = await open_crawl(order="lifo")
    await frontier.enqueue([page(number) for number in range(5)])
    assert paths(await frontier.claim(2)) == ["4", "3"]
    await frontier.enqueue(page("new"))
    assert paths(await frontier.claim(10)) == ["new", "2", "1", "0"]


async def test_with_lifo_priorities_still_come_first(open_crawl):
    frontier = await open_crawl(order="lifo")
    await frontier.enqueue([page("high", priority=1), page("low")])
    assert paths(await frontier.claim(10)) == ["high", "low"]


async def test_hosts_take_turns(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=1))
    for host in "abc":
        await frontier.enqueue([page(number, f"{host}.example") for number in range(3)])
    rounds = []
    for _ in range(3):
        leases = await frontier.claim(10)
        rounds.append(hosts_of(leases))
        for lease in leases:
            await frontier.complete(lease)
    assert rounds == [["a.example", "b.example", "c.example"]] * 3


async def test_the_host_that_waits_longest_comes_first(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10))
    await frontier.enqueue([page(1, "a.example"), page(1, "b.example"), page(2, "a.example"), page(2, "b.example")])
    [first] = await frontier.claim()
    clock.advance(1)
    [second] = await frontier.claim()
    await frontier.complete(second)
    await frontier.complete(first)
    clock.advance(60)
    assert hosts_of([first, second]) == ["a.example", "b.example"]
    assert hosts_of(await frontier.claim(2)) == ["a.example", "b.example"]


async def test_a_served_host_goes_to_the_end_of_the_line(frontier):
    await frontier.enqueue([page(number, f"{host}.example") for host in "ab" for number in range(4)])
    assert hosts_of([lease for _ in range(4) for lease in await frontier.claim()]) == [
        "a.example",
        "b.example",
        "a.example",
        "b.example",
    ]


async def test_a_request_is_not_handed_out_before_its_time(frontier, clock):
    await frontier.enqueue([page("later", not_before=clock.seconds + 5), page("now")])
    assert (await frontier.admin.stats()).delayed == 1
    assert paths(await frontier.claim(10)) == ["now"]
    clock.advance(4.999)
    assert await frontier.claim(10) == []
    clock.advance(0.001)
    assert paths(await frontier.claim(10)) == ["later"]


async def test_a_time_that_has_passed_means_now(frontier, clock):
    await frontier.enqueue([page("past", not_before=clock.seconds - 5), page("now", not_before=clock.seconds)])
    assert (await frontier.admin.stats()).delayed == 0
    assert paths(await frontier.claim(10)) == ["past", "now"]


async def test_what_was_delayed_keeps_its_priority(frontier, clock):
    await frontier.enqueue([page("low", priority=-1, not_before=clock.seconds + 1), page("normal"), page("other")])
    await frontier.enqueue(page("high", priority=1, not_before=clock.seconds + 1))
    clock.advance(1)
    assert paths(await frontier.claim(10)) == ["high", "normal", "other", "low"]


async def test_what_was_delayed_goes_to_the_head_of_its_queue_the_first_due_before_the_others(frontier, clock):
    await frontier.enqueue([page(f"due{number}", not_before=clock.seconds + number) for number in (3, 1, 2)])
    await frontier.enqueue(page("normal"))
    clock.advance(5)
    assert paths(await frontier.claim(10)) == ["due1", "due2", "due3", "normal"]


async def test_what_is_due_at_the_same_time_comes_in_the_order_it_was_enqueued(frontier, clock):
    await frontier.enqueue([page(number, not_before=clock.seconds + 1) for number in range(12)])
    clock.advance(1)
    assert paths(await frontier.claim(20)) == [str(number) for number in range(12)]


async def test_hosts_of_due_requests_take_turns_in_the_order_these_are_due(frontier, clock):
    await frontier.enqueue([page(1, f"h{number}.example", not_before=clock.seconds + number) for number in (3, 1, 2)])
    await frontier.enqueue(page(2, "h1.example", not_before=clock.seconds + 4))
    clock.advance(5)
    assert hosts_of([lease for _ in range(3) for lease in await frontier.claim()]) == [
        "h1.example",
        "h2.example",
        "h3.example",
    ]


async def test_many_due_requests_are_promoted_a_hundred_per_claim(frontier, clock):
    await frontier.enqueue([page(number, not_before=clock.seconds + 1) for number in range(250)])
    clock.advance(1)
    sizes = [len(await frontier.claim(1000)) for _ in range(4)]
    assert sizes == [100, 100, 50, 0]


async def test_many_due_hosts_are_opened_at_least_a_hundred_per_claim(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=1, concurrency=5))
    await frontier.enqueue([page(number, f"h{host}.example") for host in range(150) for number in range(2)])
    assert len(await frontier.claim(1000)) == 150
    clock.advance(1)
    assert [len(await frontier.claim(10)) for _ in range(16)] == [10] * 15 + [0]
    assert (await frontier.admin.stats()).hosts_ready == 0


async def test_a_release_goes_to_the_head_of_its_queue(frontier):
    await frontier.enqueue([page(number) for number in range(3)])
    [lease] = await frontier.claim()
    await frontier.release(lease)
    assert paths(await frontier.claim(10)) == ["0", "1", "2"]


@pytest.mark.parametrize("order", ["fifo", "lifo"])
@pytest.mark.parametrize("verdict", [Release(), RetryIn(0), RetryIn(0, "slow", 503)])
async def test_what_comes_back_comes_first_in_either_order(open_crawl, order, verdict):
    frontier = await open_crawl(order=order)
    await frontier.enqueue([page(number) for number in range(3)])
    [lease] = await frontier.claim()
    await frontier.settle([(lease, verdict)])
    assert urls(await frontier.claim(10))[0] == lease.url


async def test_what_is_revived_goes_to_the_tail_of_its_queue(frontier):
    await frontier.enqueue([page(number) for number in range(3)])
    [lease] = await frontier.claim()
    await frontier.bury(lease, "no")
    await frontier.admin.revive()
    assert paths(await frontier.claim(10)) == ["1", "2", "0"]


async def test_a_claim_gives_no_more_than_asked_for(frontier):
    await frontier.enqueue([page(number, f"h{number % 7}.example") for number in range(50)])
    assert len(await frontier.claim()) == 1
    assert len(await frontier.claim(20)) == 20
    assert len(await frontier.claim(100)) == 29
    assert await frontier.claim(100) == []
