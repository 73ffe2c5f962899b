"""The right to work on a request: who has it, for how long, and what becomes of it."""

from __future__ import annotations

import msgspec
import pytest

from silkline import Admission, Budget, Bury, Complete, LeaseLost, Politeness, Release, Request, RetryIn
from silkline.errors import ConfigError, RequestError
from tests.contract.frontiers import page, paths, urls

VERDICTS = [Complete(), RetryIn(0), RetryIn(5, "slow", 503), RetryIn(5, block_host=True), Release(), Bury("no", 404)]


async def one_lease(frontier):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    return lease


async def test_a_lease_reports_what_it_is_about(frontier, clock):
    lease = await one_lease(frontier)
    assert (lease.host, lease.attempt, lease.crashes, lease.history) == ("a.example", 1, 0, ())
    assert (lease.first, lease.expires) == (clock.seconds, clock.seconds + 10)


async def test_a_leased_request_is_handed_out_to_nobody_else(open_crawl):
    one, other = await open_crawl(), await open_crawl()
    await one_lease(one)
    assert await other.claim() == []


async def test_a_lease_can_be_ended_by_another_client_that_holds_it(open_crawl):
    one, other = await open_crawl(), await open_crawl()
    await other.complete(await one_lease(one))
    assert await one.finished()


async def test_tokens_only_grow(frontier, clock):
    tokens = []
    await frontier.enqueue([page(number) for number in range(20)])
    for number in range(30):
        for lease in await frontier.claim(3):
            tokens.append(lease.token)
            await frontier.settle([(lease, VERDICTS[number % len(VERDICTS)])])
        clock.advance(number % 3)
    assert len(tokens) > 20
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("late", VERDICTS)
async def test_a_worker_that_was_away_too_long_cannot_end_its_lease(frontier, clock, late):
    slow = await one_lease(frontier)
    clock.advance(10)
    [quick] = await frontier.claim()
    before = await frontier.admin.stats()
    assert (await frontier.settle([(slow, late)])).lost == [slow]
    assert await frontier.admin.stats() == msgspec.structs.replace(before, late=before.late + 1)
    assert await frontier.extend([quick]) == []
    await frontier.complete(quick)
    assert (await frontier.admin.stats()).done == 1


@pytest.mark.parametrize("verb", ["complete", "retry", "release", "bury"])
async def test_ending_a_lost_lease_raises(frontier, clock, verb):
    slow = await one_lease(frontier)
    clock.advance(10)
    await frontier.claim()
    with pytest.raises(LeaseLost, match=r"https://a\.example/1") as raised:
        await getattr(frontier, verb)(slow, **({"reason": "no"} if verb == "bury" else {}))
    assert raised.value.leases == (slow,)


@pytest.mark.parametrize("first", VERDICTS)
@pytest.mark.parametrize("second", [Complete(), RetryIn(0), Bury("no")])
async def test_a_lease_ends_once(frontier, first, second):
    lease = await one_lease(frontier)
    assert (await frontier.settle([(lease, first)])).lost == []
    before = await frontier.admin.stats()
    assert (await frontier.settle([(lease, second)])).lost == [lease]
    assert await frontier.admin.stats() == msgspec.structs.replace(before, late=before.late + 1)


@pytest.mark.parametrize("first", VERDICTS)
@pytest.mark.parametrize("second", VERDICTS)
async def test_a_lease_ends_once_in_a_batch_too_and_the_first_verdict_holds(frontier, first, second):
    await frontier.enqueue(page(2, "b.example"))
    lease = await one_lease(frontier)
    assert (await frontier.settle([(lease, first), (lease, second)])).lost == [lease]
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert stats.done == isinstance(first, Complete)
    assert stats.dead == isinstance(first, Bury)
    assert (await frontier.admin.hosts("a.example"))[0].leased == 0


async def test_links_of_a_lost_lease_are_refused(frontier, clock):
    slow = await one_lease(frontier)
    clock.advance(10)
    await frontier.claim()
    settlement = await frontier.settle([(slow, Complete([page("link")]))])
    assert settlement.links == [Admission.REFUSED]
    assert "no longer leased" in settlement.links.refusals[0].reason
    assert settlement.links.refusals[0].request.url == page("link").url
    assert (await frontier.admin.stats()).accepted == 1


async def test_an_expired_lease_that_nobody_took_may_still_end_well(frontier, clock):
    lease = await one_lease(frontier)
    clock.advance(60)
    await frontier.complete(lease)
    assert await frontier.claim() == []
    assert (await frontier.admin.stats()).rescued == 0


async def test_a_lost_workers_request_returns_when_its_lease_expires(frontier, clock):
    lost = await one_lease(frontier)
    clock.advance(9.999)
    assert await frontier.claim() == []
    clock.advance(0.001)
    [lease] = await frontier.claim()
    assert (lease.url, lease.attempt, lease.crashes, lease.first) == (lost.url, 2, 0, lost.first)
    assert (lost.suspect, lease.suspect) == (False, True)
    assert lease.token > lost.token
    stats = await frontier.admin.stats()
    assert (stats.rescued, stats.leased) == (1, 1)


async def test_a_rescued_request_comes_before_those_that_wait(frontier, clock):
    await one_lease(frontier)
    await frontier.enqueue([page(2), page(3)])
    clock.advance(10)
    assert paths(await frontier.claim(10)) == ["1", "2", "3"]


async def test_a_claim_may_ask_for_another_lease(frontier, clock):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim(lease=60)
    assert lease.expires == clock.seconds + 60
    clock.advance(59)
    assert await frontier.claim() == []
    clock.advance(1)
    assert len(await frontier.claim()) == 1


async def test_the_third_worker_it_takes_down_is_the_last(frontier, clock):
    """The first time it may have been any of the requests that the worker held; after that it is tried apart."""
    first = await one_lease(frontier)
    for crashes in (0, 1, 2):
        clock.advance(10)
        [lease] = await frontier.claim()
        assert (lease.crashes, lease.suspect) == (crashes, True)
    clock.advance(10)
    assert await frontier.claim() == []
    [letter] = await frontier.admin.dead()
    assert (letter.reason, letter.status, letter.attempts, letter.crashes) == ("crashed", None, 4, 3)
    assert (letter.first, letter.last) == (first.first, clock.seconds)
    assert (await frontier.admin.stats()).dead == 1


async def test_crashes_are_counted_across_retries_and_releases(frontier, clock):
    await one_lease(frontier)
    for _ in range(2):
        clock.advance(10)
        [lease] = await frontier.claim()
    await frontier.release(lease)
    [lease] = await frontier.claim()
    assert (lease.attempt, lease.crashes) == (3, 1)
    await frontier.retry(lease)
    [lease] = await frontier.claim()
    assert (lease.attempt, lease.crashes) == (4, 1)
    for _ in range(2):
        clock.advance(10)
        await frontier.claim()
    assert (await frontier.admin.stats()).dead == 1


async def test_expired_leases_are_rescued_a_hundred_per_claim(frontier, clock):
    await frontier.enqueue([page(number) for number in range(250)])
    assert len(await frontier.claim(1000)) == 250
    clock.advance(10)
    for rescued in (100, 200, 250, 250):
        await frontier.claim(1, lease=1000)
        assert (await frontier.admin.stats()).rescued == rescued


async def test_a_release_costs_no_attempt(frontier, clock):
    lease = await one_lease(frontier)
    for _ in range(5):
        await frontier.release(lease)
        clock.advance(1)
        [lease] = await frontier.claim()
        assert (lease.attempt, lease.first, lease.history) == (1, clock.seconds, ())


async def test_a_release_may_wait(frontier, clock):
    lease = await one_lease(frontier)
    await frontier.release(lease, after=3)
    assert (await frontier.admin.stats()).delayed == 1
    clock.advance(2.999)
    assert await frontier.claim() == []
    clock.advance(0.001)
    [lease] = await frontier.claim()
    assert lease.attempt == 1


async def test_an_extended_lease_lasts_longer(frontier, clock):
    lease = await one_lease(frontier)
    for _ in range(5):
        clock.advance(9)
        assert await frontier.extend([lease]) == []
        assert await frontier.claim() == []
    await frontier.complete(lease)


async def test_many_leases_are_extended_in_one_call_and_lost_ones_reported(frontier, clock):
    await frontier.enqueue([page(number) for number in range(30)])
    leases = await frontier.claim(30)
    for lease in leases[:10]:
        await frontier.complete(lease)
    clock.advance(9)
    assert await frontier.extend(leases, lease=100) == leases[:10]
    clock.advance(99)
    assert await frontier.claim(30) == []
    clock.advance(1)
    await frontier.claim(30)
    assert (await frontier.admin.stats()).rescued == 20


async def test_a_superseded_lease_cannot_be_extended(frontier, clock):
    slow = await one_lease(frontier)
    clock.advance(10)
    [quick] = await frontier.claim()
    assert await frontier.extend([slow, quick], lease=50) == [slow]
    clock.advance(49)
    assert await frontier.claim() == []


# ── pages that have landed ───────────────────────────────────────────────────────────────────────────────────────────


async def capped(open_crawl, **settings):
    """A frontier whose one host is at its cap of two, with three more requests behind; and the two leases."""
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=2), **settings)
    await frontier.enqueue([page(number) for number in range(5)])
    leases = await frontier.claim(5)
    assert len(leases) == 2
    return frontier, leases


async def test_a_page_that_has_landed_leaves_its_place_to_the_next(open_crawl):
    frontier, [one, two] = await capped(open_crawl)
    assert await frontier.vacate([one]) == []
    assert await frontier.vacate([one, one]) == []
    [three] = await frontier.claim(5)
    [host] = await frontier.admin.hosts()
    assert host.leased == 2
    stats = await frontier.admin.stats()
    assert (stats.leased, stats.ready) == (3, 2)
    await frontier.settle([(one, Complete()), (two, Complete())])
    assert len(await frontier.claim(5)) == 1  # the place of the second; that of the first was free before
    await frontier.complete(three)
    assert (await frontier.admin.stats()).done == 3


@pytest.mark.parametrize("verdict", [RetryIn(0), RetryIn(30), Release(), Release(30), Bury("no")])
async def test_a_landed_page_may_end_in_any_way_without_freeing_a_place_twice(open_crawl, verdict):
    frontier, [one, two] = await capped(open_crawl)
    await frontier.vacate([one])
    [three] = await frontier.claim(5)
    await frontier.settle([(one, verdict)])
    assert await frontier.claim(5) == []
    await frontier.settle([(two, Complete()), (three, Complete())])
    assert len(await frontier.claim(5)) == 2


async def test_a_landed_page_whose_worker_died_is_rescued(open_crawl, clock):
    frontier, [one, two] = await capped(open_crawl)
    await frontier.vacate([one])
    clock.advance(9)
    await frontier.extend([two])
    clock.advance(1)
    [again] = await frontier.claim(5)
    assert (again.url, again.attempt, again.suspect) == (one.url, 2, True)
    assert await frontier.vacate([one, again]) == [one]


async def test_a_host_with_a_budget_keeps_its_places_until_the_verdicts(open_crawl):
    frontier, [one, two] = await capped(open_crawl, budget=Budget(pages_per_host=2))
    assert await frontier.vacate([one, two]) == []
    assert await frontier.claim(5) == []
    await frontier.settle([(one, Complete()), (two, Complete())])
    assert (await frontier.admin.stats()).done == 2
    assert await frontier.finished()


async def test_a_landed_page_is_explained_as_leased(open_crawl):
    frontier, [one, _] = await capped(open_crawl)
    await frontier.vacate([one])
    assert (await frontier.admin.explain(one.url)).state == "leased"


async def test_a_host_at_its_cap_gives_requests_in_reserve(open_crawl):
    frontier, held = await capped(open_crawl)
    assert await frontier.claim(1) == []
    reserve = await frontier.claim(9, reserve={"a.example": 2, "unknown.example": 5})
    assert [lease.reserve for lease in held + reserve] == [False, False, True, True]
    assert paths(reserve) == ["2", "3"]
    [host] = await frontier.admin.hosts()
    assert (host.leased, host.queued) == (2, 1)
    await frontier.settle([(lease, Complete()) for lease in reserve])
    assert await frontier.claim(1) == []  # no place is free yet
    await frontier.settle([(lease, Complete()) for lease in held])
    assert [lease.reserve for lease in await frontier.claim(9, reserve={"a.example": 2})] == [False]


async def test_requests_in_reserve_come_after_all_that_can_start(open_crawl):
    frontier, _ = await capped(open_crawl)
    await frontier.enqueue([page(0, "b.example"), page(9, priority=3)])
    assert urls(await frontier.claim(1, reserve={"a.example": 2})) == ["https://b.example/0"]
    assert paths(await frontier.claim(9, reserve={"a.example": 2})) == ["9"]  # of the highest priority only
    assert len(await frontier.claim(2, reserve={"a.example": 9})) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"politeness": Politeness(delay=0.1)},
        {"politeness": Politeness(delay=0), "budget": Budget(pages_per_host=3)},
        {"politeness": Politeness(delay=0), "budget": Budget(pages=1)},
    ],
    ids=["delay", "pages per host", "pages"],
)
async def test_nothing_is_in_reserve_that_could_not_start(open_crawl, settings):
    frontier = await open_crawl(**settings)
    await frontier.enqueue([page(number) for number in range(4)])
    assert len(await frontier.claim(1)) == 1
    assert await frontier.claim(9, reserve={"a.example": 3}) == []


async def test_a_lane_that_is_taken_whole_in_reserve_is_empty(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=1))
    await frontier.enqueue([Request(f"https://a.example/{n}", priority=-n) for n in range(4)])
    held = await frontier.claim(1)
    assert paths(await frontier.claim(9, reserve={"a.example": 1})) == ["1"]
    assert paths(await frontier.claim(9, reserve={"a.example": 1})) == ["2"]
    await frontier.settle([(lease, Complete()) for lease in held])
    assert paths(await frontier.claim(9)) == ["3"]


@pytest.mark.parametrize("pace", [{"paused": True}, {"delay": 5.0}, {"block_until": 4_000_000_000.0}], ids=str)
async def test_a_host_that_must_rest_gives_nothing_in_reserve(open_crawl, pace):
    frontier, _ = await capped(open_crawl)
    await frontier.admin.set_host("a.example", **pace)
    assert await frontier.claim(9, reserve={"a.example": 3}) == []


async def test_a_place_is_handed_over_to_a_request_in_reserve(open_crawl):
    frontier, [one, two] = await capped(open_crawl)
    three, four = await frontier.claim(9, reserve={"a.example": 2})
    await frontier.internal.hand_over([(one, three), (three, four)])
    await frontier.settle([(one, Complete()), (three, RetryIn(0))])
    assert [lease.reserve for lease in await frontier.claim(9, reserve={"a.example": 1})] == [True]
    await frontier.complete(four)
    assert [lease.reserve for lease in await frontier.claim(9)] == [False]
    await frontier.complete(two)


async def test_a_lease_that_has_expired_hands_over_nothing(open_crawl, clock):
    frontier, [one, two] = await capped(open_crawl)
    [three] = await frontier.claim(1, reserve={"a.example": 1})
    clock.advance(9)
    await frontier.extend([two, three])
    clock.advance(1)
    assert [lease.url for lease in await frontier.claim(9)] == [one.url]
    await frontier.internal.hand_over([(one, three)])
    await frontier.complete(three)
    assert await frontier.claim(9) == []


@pytest.mark.parametrize("reserve", [{"a.example": 0}, {"a.example": "2"}, {"": 1}, {7: 1}], ids=str)
async def test_a_wrong_reserve_is_refused(frontier, reserve):
    with pytest.raises((ConfigError, RequestError), match=r"host|reserve"):
        await frontier.claim(1, reserve=reserve)


async def test_many_leases_end_in_one_call_each_in_its_way(frontier, clock):
    await frontier.enqueue([page(number, f"h{number}.example") for number in range(6)])
    leases = await frontier.claim(6)
    await frontier.complete(leases[5])
    outcome = await frontier.settle(
        zip(leases, [Complete([page("x")]), RetryIn(5), Release(), Bury("no"), Complete(), Complete()], strict=True)
    )
    assert outcome.lost == [leases[5]]
    assert outcome.links == [Admission.ADDED]
    stats = await frontier.admin.stats()
    assert (stats.done, stats.delayed, stats.dead, stats.ready, stats.leased) == (3, 1, 1, 2, 0)


async def test_more_than_a_script_call_holds_may_be_claimed_and_settled(frontier):
    await frontier.enqueue([page(number, f"h{number % 7}.example") for number in range(2100)])
    leases = await frontier.claim(2100)
    while more := await frontier.claim(2100):
        leases += more
    assert len(set(urls(leases))) == 2100
    assert await frontier.extend(leases) == []
    outcome = await frontier.settle((lease, Complete()) for lease in leases)
    assert outcome.lost == []
    assert (await frontier.admin.stats()).done == 2100


@pytest.mark.parametrize(
    "wrong", [{"n": 0}, {"n": -1}, {"n": 1.5}, {"n": True}, {"wait": -1}, {"wait": float("nan")}, {"lease": 0}]
)
async def test_a_claim_that_means_nothing_is_refused(frontier, wrong):
    with pytest.raises(ConfigError):
        await frontier.claim(**wrong)


async def test_a_waiting_claim_returns_at_once_when_there_is_work(frontier):
    await frontier.enqueue(page(1))
    assert paths(await frontier.claim(10, wait=60)) == ["1"]


async def test_a_claim_that_waited_in_vain_answers_nothing_and_the_next_one_sees_what_came(frontier):
    assert await frontier.claim(wait=0.01) == []
    await frontier.enqueue(page(1))
    assert len(await frontier.claim()) == 1


async def test_leases_with_the_same_token_are_the_same(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=1))
    lease = await one_lease(frontier)
    await frontier.release(lease)
    [again] = await frontier.claim()
    assert again != lease
    assert len({lease, again, lease}) == 2


async def test_a_link_of_several_pages_is_stored_though_the_first_of_them_is_lost(frontier):
    await frontier.enqueue(["https://a.example/1", "https://b.example/2"])
    lost, held = await frontier.claim(2)
    await frontier.complete(lost)
    link = "https://c.example/x"
    outcome = await frontier.settle([(lost, Complete([link])), (held, Complete([link, link]))])
    assert outcome.lost == [lost]
    assert outcome.links == [Admission.REFUSED, Admission.ADDED, Admission.SEEN]
    assert (await frontier.admin.stats()).ready == 1


async def test_a_link_of_several_pages_is_stored_though_it_is_too_deep_on_the_first(open_crawl):
    frontier = await open_crawl(budget=Budget(depth=3))
    await frontier.enqueue([Request("https://a.example/1", depth=3), Request("https://b.example/2", depth=1)])
    leases = sorted(await frontier.claim(2), key=lambda lease: -lease.request.depth)
    link = "https://c.example/x"
    outcome = await frontier.settle([(lease, Complete([link])) for lease in leases])
    assert outcome.links == [Admission.REFUSED, Admission.ADDED]
    (found,) = await frontier.claim(2)
    assert found.request.depth == 2
