"""Requests that wait or are in progress are listed in pages; some can be dropped, or tried at once."""

from __future__ import annotations

import pytest

from silkline import Request
from silkline.errors import ConfigError
from tests.contract.frontiers import page, paths


async def every(frontier, state="ready", limit=3, **which):
    """All pages of a list, one after the other."""
    found, after = [], ""
    while True:
        some = await frontier.admin.requests(state, limit=limit, after=after, **which)
        assert len(some.requests) <= limit
        found += some.requests
        after = some.after
        if not after:
            return found
        assert some.requests, "no page of a small crawl is empty"


async def test_a_new_crawl_has_nothing_to_list(frontier):
    for state in ("ready", "delayed", "leased"):
        assert await frontier.admin.requests(state) == ([], "")
        assert await frontier.admin.requests(state, host="a.example") == ([], "")


async def test_ready_requests_of_a_host_come_in_the_order_in_which_they_are_claimed(frontier):
    await frontier.enqueue([page(number, priority=number % 3) for number in range(10)])
    await frontier.enqueue([page(number, host="b.example") for number in range(4)])
    listed = await every(frontier, host="a.example")
    assert [one.state for one in listed] == ["ready"] * 10
    assert {one.host for one in listed} == {"a.example"}
    expected = [2, 5, 8, 1, 4, 7, 0, 3, 6, 9]
    assert paths(listed) == [str(number) for number in expected]
    assert [one.request.priority for one in listed] == [2, 2, 2, 1, 1, 1, 0, 0, 0, 0]
    await frontier.admin.pause("b.example")
    assert paths(await frontier.claim(10)) == paths(listed)


@pytest.mark.parametrize("limit", [1, 7, 100])
@pytest.mark.parametrize("shards", [1, 3])
async def test_all_ready_requests_are_listed_once_wherever_their_hosts_are(open_crawl, limit, shards):
    frontier = await open_crawl(shards=shards)
    await frontier.enqueue([page(number, host=f"h{number % 5}.example", priority=number % 2) for number in range(25)])
    await frontier.admin.pause("h1.example")
    await frontier.admin.set_host("h2.example", concurrency=1)
    await frontier.admin.set_host("h3.example", delay=1000)
    leased = await frontier.claim(4)
    listed = [one.url for one in await every(frontier, limit=limit)]
    assert len(listed) == len(set(listed)) == 25 - len(leased)
    assert not {lease.url for lease in leased} & set(listed)


async def test_a_retried_request_is_listed_with_its_attempts(frontier):
    await frontier.enqueue("https://a.example/1")
    [lease] = await frontier.claim(1)
    await frontier.retry(lease, reason="HTTP 500", status=500)
    [one] = (await frontier.admin.requests("ready")).requests
    assert (one.attempts, one.crashes, one.due, one.expires) == (1, 0, None, None)
    assert [(trial.reason, trial.status) for trial in one.history] == [("HTTP 500", 500)]


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_delayed_requests_come_by_due_time(frontier, clock, limit):
    began = clock.now / 1000
    for number, after in ((1, 50), (2, 20), (3, 20), (4, 20), (5, 90)):
        await frontier.enqueue(page(number, not_before=began + after, handler=f"h{number}"))
    await frontier.enqueue(Request("https://b.example/6", not_before=began + 30))
    listed = await every(frontier, "delayed", limit=limit)
    assert [one.due - began for one in listed] == [20, 20, 20, 30, 50, 90]
    assert sorted(paths(listed)[:3]) == ["2", "3", "4"]
    assert [one.request.handler for one in listed[4:]] == ["h1", "h5"]
    assert paths(await every(frontier, "delayed", limit=limit, host="b.example")) == ["6"]


async def test_leased_requests_come_with_the_time_at_which_they_expire(frontier, clock):
    await frontier.enqueue([page(number) for number in range(4)])
    began = clock.now / 1000
    first, second = await frontier.claim(1, lease=50), await frontier.claim(2, lease=20)
    listed = await every(frontier, "leased", limit=2)
    assert paths(listed) == [*paths(second), *paths(first)]
    assert [one.expires - began for one in listed] == [20, 20, 50]
    assert {one.attempts for one in listed} == {1}
    assert await every(frontier, "leased", host="b.example") == []


async def test_dropped_requests_are_gone_and_their_urls_stay_seen(frontier, clock):
    await frontier.enqueue([page(number, priority=number % 2) for number in range(6)])
    await frontier.enqueue(page(7, not_before=clock.now / 1000 + 60))
    ready, delayed = await every(frontier), await every(frontier, "delayed")
    chosen = [one.id for one in (*ready[:2], ready[4], *delayed)]
    assert await frontier.admin.drop(chosen) == 4
    assert await frontier.admin.drop(chosen) == 0, "they are not there any more"
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.delayed, stats.discarded, stats.conserved) == (3, 0, 4, True)
    assert paths(await frontier.claim(10)) == [paths(ready)[place] for place in (2, 3, 5)]
    assert await frontier.enqueue(page(7)) == ["seen"]


async def test_a_crawl_whose_last_requests_are_dropped_is_finished(frontier):
    await frontier.enqueue([page(number, host=f"h{number % 3}.example", priority=number % 2) for number in range(12)])
    assert await frontier.admin.drop([one.id for one in await every(frontier)]) == 12
    assert await frontier.claim(5) == []
    assert await frontier.finished()


async def test_what_was_claimed_meanwhile_is_not_dropped(frontier):
    await frontier.enqueue([page(number) for number in range(6)])
    listed = await every(frontier)
    claimed = await frontier.claim(2)
    assert await frontier.admin.drop([one.id for one in listed[:4]]) == 2
    assert paths(await every(frontier)) == ["4", "5"]
    for lease in claimed:
        await frontier.complete(lease)


async def test_of_two_equal_requests_one_is_dropped_for_each_id(frontier):
    await frontier.enqueue([Request("https://a.example/", dont_filter=True) for _ in range(3)])
    listed = await every(frontier)
    assert await frontier.admin.drop([listed[0].id, listed[0].id]) == 1
    assert await frontier.admin.drop([one.id for one in await every(frontier)]) == 2


async def test_promoted_requests_are_claimed_next_in_their_order(frontier, clock):
    await frontier.enqueue([page(number) for number in range(2)])
    for number in (7, 8, 9):
        await frontier.enqueue(page(number, not_before=clock.now / 1000 + number * 100))
    listed = await every(frontier, "delayed")
    assert await frontier.admin.promote([one.id for one in listed[1:]]) == 2
    assert await frontier.admin.promote([listed[1].id]) == 0
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.delayed) == (4, 1)
    assert paths(await frontier.claim(9)) == ["8", "9", "0", "1"]


async def test_a_promoted_suspect_can_be_claimed_at_once(frontier, clock):
    await frontier.enqueue("https://a.example/1")
    await frontier.claim(1, lease=5)
    clock.advance(6)
    [again] = await frontier.claim(1, lease=5)
    await frontier.retry(again, after=1000)
    [listed] = await every(frontier, "delayed")
    assert await frontier.claim(1) == []
    assert await frontier.admin.promote([listed.id]) == 1
    [lease] = await frontier.claim(1)
    assert lease.suspect


async def test_a_waiting_claim_hears_of_a_promotion(frontier, clock):
    await frontier.enqueue(page(1, not_before=clock.now / 1000 + 1000))
    [one] = await every(frontier, "delayed")
    await frontier.admin.promote([one.id])
    assert paths(await frontier.claim(1, wait=5)) == ["1"]


async def test_a_request_can_be_dropped_while_the_crawl_is_paused(frontier):
    await frontier.enqueue([page(number) for number in range(3)])
    await frontier.admin.pause()
    assert await frontier.admin.drop([one.id for one in (await every(frontier))[:2]]) == 2
    await frontier.admin.resume()
    assert paths(await frontier.claim(5)) == ["2"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "done"},
        {"state": "dead"},
        {"limit": 0},
        {"limit": 1001},
        {"limit": "all"},
        {"after": "nonsense"},
        {"after": "0 ' 9"},
        {"host": ""},
        {"host": "not a host"},
    ],
)
async def test_nonsense_is_refused(frontier, wrong):
    with pytest.raises(ConfigError):
        await frontier.admin.requests(**wrong)


@pytest.mark.parametrize("wrong", ["", "leased:0:5", "dead:0:1", "ready", "ready:0:", "delayed:x:1:2:3"])
async def test_only_ids_of_waiting_requests_are_accepted(frontier, wrong):
    for verb in (frontier.admin.drop, frontier.admin.promote):
        with pytest.raises(ConfigError, match="as they were listed"):
            await verb([wrong])
    with pytest.raises(ConfigError, match="ids of delayed requests"):
        await frontier.admin.promote(["ready:0:0:0:1:ab:a.example"])
