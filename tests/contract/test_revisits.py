"""A page that is done and comes again: stored in the same step, once, and for good."""

from __future__ import annotations

import pytest

from silkline import Admission, Budget, Complete, LeaseLost, Politeness, Request, RetryIn
from silkline.core.revisit import LastVisit
from silkline.core.verdict import NextVisit
from silkline.errors import RequestError
from tests.contract.frontiers import page

VISIT = LastVisit(interval=60, changed=1_700_000_000, digest=7, modified=1_700_000_000, etag='"abc"')


async def visited(frontier, url=None, after=60, visit=VISIT):
    await frontier.enqueue(url or page(1))
    [lease] = await frontier.claim()
    await frontier.settle([(lease, Complete(next_visit=NextVisit(after, visit)))])
    return lease


async def test_it_is_done_and_delayed_in_one_step_and_handed_out_when_it_is_due(frontier, clock):
    await visited(frontier, Request(page(1).url, priority=3, handler="product", meta={"sku": 7}))
    stats = await frontier.admin.stats()
    assert (stats.done, stats.delayed, stats.accepted, stats.seen) == (1, 1, 2, 1)
    assert stats.conserved
    assert not await frontier.finished()
    clock.advance(59)
    assert await frontier.claim() == []
    clock.advance(1)
    [lease] = await frontier.claim()
    assert (lease.attempt, lease.created, lease.history) == (1, None, ())
    assert lease.request == Request(page(1).url, priority=3, handler="product", meta={"sku": 7}, visit=VISIT)


async def test_it_stays_seen_so_a_link_to_it_does_not_queue_it_twice(frontier):
    await visited(frontier)
    assert await frontier.enqueue([page(1)]) == [Admission.SEEN]


async def test_its_failures_are_kept_apart_for_each_visit(frontier, clock):
    await visited(frontier)
    for _ in range(2):
        clock.advance(60)
        [lease] = await frontier.claim()
        assert lease.attempt == 1
        await frontier.retry(lease, 5, reason="slow", status=503)
        clock.advance(5)
        [lease] = await frontier.claim()
        assert (lease.attempt, len(lease.history), lease.request.visit) == (2, 1, VISIT)
        await frontier.settle([(lease, Complete(next_visit=NextVisit(60)))])


async def test_a_worker_that_was_away_too_long_stores_no_next_visit(frontier, clock):
    await frontier.enqueue(page(1))
    [slow] = await frontier.claim()
    clock.advance(10)
    [quick] = await frontier.claim()
    [lost] = (await frontier.settle([(slow, Complete(next_visit=NextVisit(60)))])).lost
    assert lost == slow
    await frontier.complete(quick)
    assert await frontier.finished()


async def test_a_cancelled_crawl_has_no_next_visit(frontier):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.admin.cancel()
    await frontier.settle([(lease, Complete(next_visit=NextVisit(60)))])
    stats = await frontier.admin.stats()
    assert (stats.done, stats.delayed) == (1, 0)
    assert stats.conserved


async def test_next_visits_wait_in_a_full_crawl_which_refuses_new_links(open_crawl, clock):
    frontier = await open_crawl(capacity=3, politeness=Politeness(delay=0, concurrency=10))
    await frontier.enqueue([page(number) for number in range(3)])
    leases = await frontier.claim(10)
    await frontier.settle([(lease, Complete(next_visit=NextVisit(60))) for lease in leases])
    assert await frontier.enqueue([page(9)]) == [Admission.FULL]
    clock.advance(60)
    assert len(await frontier.claim(10)) == 3


async def test_when_all_are_due_at_once_they_obey_delay_and_priority(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=1, concurrency=1))
    urls = [Request(page(number).url, priority=number % 2) for number in range(6)]
    await frontier.enqueue(urls)
    for _ in urls:
        [lease] = await frontier.claim(10)
        await frontier.settle([(lease, Complete(next_visit=NextVisit(60)))])
        clock.advance(1)
    clock.advance(3600)  # as after a long pause
    came = []
    for _ in urls:
        [lease] = await frontier.claim(10)
        came.append(lease.request.priority)
        await frontier.settle([(lease, Complete(next_visit=NextVisit(60)))])
        assert await frontier.claim(10) == []
        clock.advance(1)
    assert came == [1, 1, 1, 0, 0, 0]


async def test_a_visit_counts_as_a_page_of_the_budget(open_crawl, clock):
    frontier = await open_crawl(budget=Budget(pages=2))
    await visited(frontier)
    clock.advance(60)
    [lease] = await frontier.claim()
    await frontier.settle([(lease, Complete(next_visit=NextVisit(60)))])
    clock.advance(60)
    assert await frontier.claim() == []
    assert await frontier.finished()


async def test_explain_says_when_it_comes_again_and_why(frontier):
    await visited(frontier)
    found = await frontier.admin.explain(page(1))
    assert "its next visit is due in 60 s" in found.text
    assert "has not changed since its first visit at 2023-11-14 22:13:20 UTC; its interval is 1 min" in found.text


async def test_explain_says_what_has_changed_and_failed(frontier):
    await visited(frontier, visit=LastVisit(interval=7200, changed=1_700_000_000, changes=3, visits=8, failures=2))
    found = await frontier.admin.explain(page(1))
    assert "It has changed 3 times, the last time before the visit at 2023-11-14 22:13:20 UTC" in found.text
    assert "its interval is 2 h, longer now because the last 2 visits failed" in found.text


async def test_many_end_in_one_call_each_in_its_way(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=10))
    await frontier.enqueue([page(number) for number in range(5)])
    one, two, three, four, five = await frontier.claim(10)
    outcome = await frontier.settle(
        [
            (one, Complete([page(8)], next_visit=NextVisit(60))),
            (two, Complete()),
            (three, Complete(result=7)),
            (four, RetryIn(30)),
            (five, Complete(next_visit=NextVisit(90))),
        ]
    )
    assert outcome.links == [Admission.ADDED]
    stats = await frontier.admin.stats()
    assert (stats.done, stats.delayed, stats.ready, stats.accepted) == (4, 3, 1, 8)
    assert stats.conserved
    clock.advance(61)
    assert sorted(lease.url for lease in await frontier.claim(10)) == sorted([page(8).url, one.url, four.url])
    assert (await frontier.result(three.request)).value == 7


async def test_a_result_and_a_next_visit_exclude_each_other(frontier):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    with pytest.raises(RequestError, match="not both"):
        await frontier.settle([(lease, Complete(result=1, next_visit=NextVisit(60)))])


async def test_its_lease_can_be_lost_like_any_other(frontier, clock):
    await visited(frontier)
    clock.advance(60)
    [lease] = await frontier.claim()
    clock.advance(10)
    [again] = await frontier.claim()
    assert again.request.visit == VISIT
    with pytest.raises(LeaseLost):
        await frontier.complete(lease)
