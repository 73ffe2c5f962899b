"""Budgets and capacity: how much a crawl takes of the web, and of memory."""

from __future__ import annotations

import random

import pytest

from silkline import Admission, Budget, Bury, Complete, Politeness, Release, Request, RetryIn
from silkline.errors import ConfigError
from tests.contract.frontiers import page, paths

ADDED, SEEN, FULL, REFUSED = Admission.ADDED, Admission.SEEN, Admission.FULL, Admission.REFUSED

# ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_no_more_pages_are_handed_out_than_the_budget(open_crawl):
    frontier = await open_crawl(budget=Budget(pages=3))
    await frontier.enqueue([page(1, f"h{number}.example") for number in range(10)])
    leases = await frontier.claim(10)
    assert len(leases) == 3
    assert await frontier.claim(10) == []
    for lease in leases:
        await frontier.complete(lease)
    assert await frontier.claim(10) == []
    assert await frontier.finished()
    stats = await frontier.admin.stats()
    assert (stats.done, stats.ready) == (3, 7)


async def test_a_page_that_fails_does_not_use_the_budget_up(open_crawl, clock):
    frontier = await open_crawl(budget=Budget(pages=2))
    await frontier.enqueue([page(number) for number in range(5)])
    first, second = await frontier.claim(10)
    await frontier.bury(first, "no")
    await frontier.retry(second, after=100)
    assert not await frontier.finished()
    leases = await frontier.claim(10)
    assert paths(leases) == ["2", "3"]
    for lease in leases:
        await frontier.complete(lease)
    assert await frontier.finished()
    clock.advance(100)
    assert await frontier.claim(10) == []


async def test_a_lost_workers_share_of_the_budget_comes_back(open_crawl, clock):
    frontier = await open_crawl(budget=Budget(pages=1))
    await frontier.enqueue([page(1), page(2)])
    await frontier.claim(10)
    clock.advance(10)
    [lease] = await frontier.claim(10)
    await frontier.complete(lease)
    assert await frontier.finished()


async def test_no_host_gives_more_pages_than_its_budget(open_crawl):
    frontier = await open_crawl(budget=Budget(pages_per_host=2))
    await frontier.enqueue([page(number, host) for host in ("a.example", "b.example") for number in range(4)])
    leases = await frontier.claim(10)
    assert sorted(lease.host for lease in leases) == ["a.example"] * 2 + ["b.example"] * 2
    await frontier.settle([(lease, Complete()) for lease in leases if lease.host == "a.example"])
    stats = await frontier.admin.stats()
    assert (stats.done, stats.discarded, stats.ready) == (2, 2, 2)
    answers = await frontier.enqueue([page("new"), page("new", "b.example"), page("other", priority=3)])
    assert answers == [REFUSED, ADDED, REFUSED]
    assert answers.refusals[0].reason == "the host's page budget is spent"
    assert (await frontier.admin.hosts("a.example"))[0].pages == 2


async def test_a_failed_page_does_not_use_its_hosts_budget_up(open_crawl):
    frontier = await open_crawl(budget=Budget(pages_per_host=1))
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim(10)
    await frontier.bury(lease, "no")
    [lease] = await frontier.claim(10)
    await frontier.complete(lease)
    assert await frontier.claim(10) == []
    assert await frontier.finished()


async def test_what_is_due_after_its_hosts_budget_is_spent_is_dropped(open_crawl, clock):
    frontier = await open_crawl(budget=Budget(pages_per_host=1))
    await frontier.enqueue([page(1), page(2, not_before=clock.seconds + 5), page(3, priority=1)])
    [lease] = await frontier.claim(10)
    await frontier.complete(lease)
    clock.advance(5)
    assert await frontier.claim(10) == []
    stats = await frontier.admin.stats()
    assert (stats.done, stats.discarded) == (1, 2)
    assert await frontier.finished()


async def test_what_lies_too_deep_is_refused(open_crawl):
    frontier = await open_crawl(budget=Budget(depth=1))
    answers = await frontier.enqueue([page(0), page(1, depth=1), page(2, depth=2)])
    assert answers == [ADDED, ADDED, REFUSED]
    assert "depth" in answers.refusals[0].reason
    top, deep = await frontier.claim(2)
    settlement = await frontier.settle([(top, Complete([page("fine")])), (deep, Complete([page("too deep")]))])
    assert settlement.links == [ADDED, REFUSED]


async def test_links_lie_one_deeper_than_their_page(frontier):
    await frontier.enqueue(Request("https://a.example/", depth=3))
    [lease] = await frontier.claim()
    await frontier.complete(
        lease, ["https://a.example/x", page("y"), page("z", depth=9), page("b", "b.example", depth=2)]
    )
    depths = {lease.url[-1]: lease.request.depth for lease in await frontier.claim(10)}
    assert depths == {"x": 4, "y": 4, "z": 9, "b": 4}


@pytest.mark.parametrize(
    "wrong", [{"pages": 0}, {"pages": 1.5}, {"pages_per_host": -1}, {"depth": -1}, {"pages": True}]
)
def test_a_budget_that_means_nothing_is_refused(wrong):
    with pytest.raises(ConfigError):
        Budget(**wrong)


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_happens_no_budget_is_ever_exceeded(open_crawl, clock, seed):
    rng = random.Random(seed)
    frontier = await open_crawl(
        budget=Budget(pages=25, pages_per_host=6), politeness=Politeness(delay=0, concurrency=4), lease=3
    )
    done, held = {}, []
    for step in range(400):
        await frontier.enqueue(page(step, f"h{rng.randrange(6)}.example"))
        held += await frontier.claim(rng.randint(1, 5))
        rng.shuffle(held)
        for lease in held[: rng.randint(0, 4)]:
            verdict = rng.choice([Complete(), Complete(), RetryIn(1), Bury("no"), Release(), None])
            if verdict and not (await frontier.settle([(lease, verdict)])).lost and verdict == Complete():
                done[lease.host] = done.get(lease.host, 0) + 1
            held.remove(lease)
        clock.advance(rng.choice([0, 0.5, 1]))
        assert sum(done.values()) + (await frontier.admin.stats()).leased <= 25
        assert max(done.values(), default=0) <= 6
    assert sum(done.values()) == 25


# ── capacity ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_full_crawl_says_so_and_does_not_mark_what_it_did_not_take(open_crawl):
    frontier = await open_crawl(capacity=3)
    assert await frontier.enqueue([page(number) for number in range(5)]) == [ADDED] * 3 + [FULL] * 2
    assert await frontier.enqueue([page(0), page(4)]) == [SEEN, FULL]
    stats = await frontier.admin.stats()
    assert (stats.full, stats.seen, stats.accepted, stats.capacity) == (True, 3, 3, 3)
    leases = await frontier.claim(10)
    assert await frontier.enqueue([page(3), page(4), page(0)]) == [ADDED, ADDED, SEEN]
    assert len(leases) == 3


async def test_dont_filter_does_not_get_past_a_full_crawl(open_crawl):
    frontier = await open_crawl(capacity=1)
    assert await frontier.enqueue([page(1), page(1, dont_filter=True)]) == [ADDED, FULL]


async def test_a_full_crawl_opens_again_at_80_percent(open_crawl):
    frontier = await open_crawl(capacity=10)
    await frontier.enqueue([page(number) for number in range(10)])
    assert (await frontier.admin.stats()).full
    await frontier.claim(1)
    assert await frontier.enqueue(page("a")) == [FULL]
    assert (await frontier.admin.stats()).full
    await frontier.claim(1)
    assert not (await frontier.admin.stats()).full
    assert await frontier.enqueue([page("a"), page("b"), page("c")]) == [ADDED, ADDED, FULL]
    await frontier.claim(1)
    assert await frontier.enqueue(page("c")) == [FULL]


async def test_a_crawl_that_was_never_full_takes_up_to_its_capacity(open_crawl):
    frontier = await open_crawl(capacity=10)
    await frontier.enqueue([page(number) for number in range(9)])
    assert not (await frontier.admin.stats()).full
    assert await frontier.enqueue(page(9)) == [ADDED]
    assert (await frontier.admin.stats()).full


async def test_what_is_delayed_counts_and_what_is_leased_does_not(open_crawl, clock):
    frontier = await open_crawl(capacity=2)
    assert await frontier.enqueue([page(1, not_before=clock.seconds + 60), page(2)]) == [ADDED, ADDED]
    assert await frontier.enqueue(page(3)) == [FULL]
    await frontier.claim(10)
    assert await frontier.enqueue(page(3)) == [ADDED]


async def test_what_was_taken_in_always_comes_back_in(open_crawl, clock):
    frontier = await open_crawl(capacity=2)
    await frontier.enqueue([page(1), page(2)])
    leases = await frontier.claim(2)
    await frontier.enqueue([page(3), page(4)])
    await frontier.settle(zip(leases, [RetryIn(0), Bury("no")], strict=True))
    await frontier.admin.revive()
    assert (await frontier.admin.stats()).ready == 4
    assert len(await frontier.claim(10)) == 4


async def test_a_page_whose_links_find_no_room_is_tried_again_later(open_crawl, clock):
    frontier = await open_crawl(capacity=3, politeness=Politeness(delay=0, concurrency=1))
    await frontier.enqueue([page("start", priority=9), page(1)])
    [lease] = await frontier.claim()
    settlement = await frontier.complete(lease, [page("x"), page("y"), page("z"), page(1)])
    assert settlement.links == [ADDED, ADDED, FULL, SEEN]
    assert settlement.postponed == [lease]
    assert settlement.lost == []
    stats = await frontier.admin.stats()
    assert (stats.done, stats.delayed, stats.ready) == (0, 1, 3)
    for expected in ("1", "x", "y"):
        [other] = await frontier.claim()
        assert paths([other]) == [expected]
        await frontier.complete(other)
    clock.advance(5)
    [lease] = await frontier.claim()
    assert (paths([lease]), lease.attempt) == (["start"], 1)
    settlement = await frontier.complete(lease, [page("x"), page("y"), page("z"), page(1)])
    assert settlement.links == [SEEN, SEEN, ADDED, SEEN]
    assert settlement.postponed == []


async def test_only_the_pages_without_room_are_postponed(open_crawl):
    frontier = await open_crawl(capacity=3)
    await frontier.enqueue([page(1), page(2), page(3)])
    one, two, three = await frontier.claim(3)
    settlement = await frontier.settle(
        [(one, Complete([page("a"), page("b")])), (two, Complete([page("c"), page("d")])), (three, Complete())]
    )
    assert settlement.links == [ADDED, ADDED, ADDED, FULL]
    assert settlement.postponed == [two]
    assert (await frontier.admin.stats()).done == 2


async def test_offers_that_find_no_room_may_wait_on_disk_too(open_crawl, tmp_path):
    frontier = await open_crawl(capacity=2, overflow=tmp_path / "overflow.db")
    pages = [page(number) for number in range(5)]
    turned_away = await frontier.enqueue(pages)
    assert (turned_away.tally()[FULL], turned_away.spilled) == (3, False)
    answers = await frontier.enqueue([*pages, pages[4].url], spill=True)
    assert answers == [SEEN, SEEN, FULL, FULL, FULL, FULL]
    assert answers.spilled
    assert (await frontier.admin.stats()).overflow == 4
    got = []
    while not await frontier.finished():
        for lease in await frontier.claim(10, wait=3):
            got.append(lease.url)
            await frontier.complete(lease)
    assert sorted(got) == [page.url for page in pages]


async def test_without_an_overflow_offers_cannot_spill(open_crawl):
    frontier = await open_crawl(capacity=1)
    answers = await frontier.enqueue([page(1), page(2)], spill=True)
    assert (list(answers), answers.spilled) == ([ADDED, FULL], False)


async def test_links_that_find_no_room_may_wait_on_disk(open_crawl, tmp_path):
    frontier = await open_crawl(capacity=2, overflow=tmp_path / "overflow.db")
    await frontier.enqueue(page("start"))
    [lease] = await frontier.claim()
    settlement = await frontier.complete(lease, [page(number) for number in range(6)])
    assert settlement.links == [ADDED, ADDED, FULL, FULL, FULL, FULL]
    assert settlement.postponed == []
    stats = await frontier.admin.stats()
    assert (stats.done, stats.overflow) == (1, 4)
    got = []
    while not await frontier.finished():
        for lease in await frontier.claim(10, wait=3):
            assert lease.request.depth == 1
            got.append(lease.url)
            await frontier.complete(lease)
    assert sorted(got) == [page(number).url for number in range(6)]
    assert (await frontier.admin.stats()).overflow == 0
