"""Requests whose worker was lost: tried one at a time, so that only the guilty one is buried."""

from __future__ import annotations

import pytest

from silkline import Bury, Complete, Politeness, Release, RetryIn
from silkline.core.verdict import Strike, Suspect
from silkline.errors import ConfigError
from tests.contract.frontiers import page, paths

AT_ONCE = Politeness(delay=0, concurrency=100)


async def suspects(frontier, clock, number):
    """So many requests that were lost once with their worker."""
    await frontier.enqueue([page(n, f"h{n}.example") for n in range(number)])
    assert len(await frontier.claim(number)) == number
    clock.advance(10)


async def struck(frontier, clock, strikes=1):
    """One request that took a worker down."""
    await suspects(frontier, clock, 1)
    for _ in range(strikes):
        await frontier.claim()
        clock.advance(10)


async def test_a_claim_hands_out_one_suspect_beside_other_requests(open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await suspects(frontier, clock, 3)
    await frontier.enqueue([page(n) for n in range(5)])
    assert [lease.suspect for lease in await frontier.claim(4)] == [True, False, False, False]
    assert [lease.suspect for lease in await frontier.claim(4)] == [True, False, False]
    assert [lease.suspect for lease in await frontier.claim(4)] == [True]


async def test_who_holds_a_suspect_is_given_no_other(open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await suspects(frontier, clock, 2)
    await frontier.enqueue(page("fresh"))
    assert paths(await frontier.claim(4, suspects="none")) == ["fresh"]
    assert await frontier.claim(4, suspects="none") == []
    assert len(await frontier.claim(4, suspects="beside")) == 1


async def test_a_request_that_took_a_worker_down_comes_alone(open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await struck(frontier, clock)
    await frontier.enqueue(page("fresh"))
    [lease] = await frontier.claim(4)
    assert (lease.suspect, lease.crashes) == (True, 1)


async def test_one_worker_at_a_time_is_asked_to_be_alone_with_it(open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await struck(frontier, clock)
    await frontier.enqueue([page(n) for n in range(9)])
    asked = await frontier.claim(2, suspects="beside")
    assert (len(asked), asked.isolate) == (2, True)
    other = await frontier.claim(2, suspects="beside")
    assert (len(other), other.isolate) == (2, False)
    clock.advance(30)  # it did not come back
    assert (await frontier.claim(2, suspects="beside")).isolate
    [lease] = await frontier.claim(2, suspects="alone")
    assert lease.crashes == 1


async def test_a_lost_request_is_struck_only_if_it_was_begun_as_a_suspect(frontier, clock):
    """Whatever is lost with a worker, or in a claim whose reply never came, it is no fault of the request."""
    await suspects(frontier, clock, 1)
    [lease] = await frontier.claim()
    assert lease.crashes == 0
    clock.advance(10)
    [lease] = await frontier.claim()
    assert lease.crashes == 1


async def test_what_completes_is_innocent(frontier, clock):
    await struck(frontier, clock, 2)
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    assert await frontier.finished()
    assert (await frontier.admin.stats()).dead == 0


@pytest.mark.parametrize("ending", [Release(), RetryIn(0), Release(3), RetryIn(3)])
async def test_a_suspect_stays_one_until_it_completes(frontier, clock, ending):
    await suspects(frontier, clock, 1)
    [lease] = await frontier.claim()
    await frontier.settle([(lease, ending)])
    clock.advance(3)
    [again] = await frontier.claim()
    assert (again.suspect, again.crashes, again.attempt) == (True, 0, 3 - isinstance(ending, Release))


async def test_the_worker_may_tell_which_request_it_was(open_crawl, clock):
    """Then nobody waits for a lease to expire."""
    frontier = await open_crawl(politeness=AT_ONCE)
    await frontier.enqueue([page(n) for n in range(3)])
    guilty, bystander, other = await frontier.claim(3)
    reason = "it blocked the event loop for 30 s"
    await frontier.settle([(guilty, Strike(reason))])
    for strikes in (1, 2):
        [lease] = await frontier.claim(4)
        assert (lease.url, lease.crashes, lease.history[-1].reason) == (guilty.url, strikes, reason)
        await frontier.settle([(lease, Strike(reason))])
    [letter] = await frontier.admin.dead()
    assert (letter.reason, letter.crashes, letter.attempts) == (reason, 3, 3)
    await frontier.settle([(bystander, Suspect()), (other, Release())])
    stats = await frontier.admin.stats()
    assert (stats.delayed, stats.ready, stats.leased, stats.rescued) == (1, 1, 0, 4)
    rest = await frontier.claim(4)
    assert sorted((lease.url, lease.attempt, lease.suspect) for lease in rest) == [
        (bystander.url, 1, True),
        (other.url, 1, False),
    ]


async def test_suspects_are_as_polite_as_others(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=15, concurrency=1))
    await frontier.enqueue(page(1))
    await frontier.claim()
    clock.advance(10)
    assert await frontier.claim() == []
    assert await frontier.claim() == []
    clock.advance(5)
    [lease] = await frontier.claim()
    assert (await frontier.admin.hosts(lease.host))[0].leased == 1
    await frontier.release(lease)
    assert await frontier.claim() == []


async def test_a_suspect_of_a_paused_host_waits_and_holds_up_nobody(open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await suspects(frontier, clock, 2)
    await frontier.admin.pause("h0.example")
    [lease] = await frontier.claim(3)
    assert lease.host == "h1.example"
    assert await frontier.claim(3) == []
    await frontier.admin.resume("h0.example")
    clock.advance(1)
    assert [lease.host for lease in await frontier.claim(3)] == ["h0.example"]


async def test_many_suspects_do_not_keep_retries_from_coming(open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE, lease=1000)
    await frontier.enqueue(page("retry"))
    [lease] = await frontier.claim()
    await frontier.enqueue([page(n, f"h{n}.example") for n in range(150)])
    assert len(await frontier.claim(150, lease=1)) == 150
    await frontier.retry(lease, after=2)
    clock.advance(1)
    for _ in range(2):
        await frontier.claim(1, suspects="none")
    clock.advance(1)
    found = []
    for _ in range(3):
        found += paths(await frontier.claim(1, suspects="none"))
    assert found == ["retry"]


async def test_all_suspects_of_a_fleet_that_was_away_come_through(open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await suspects(frontier, clock, 300)
    done = 0
    while not await frontier.finished():
        leases = await frontier.claim(10)
        await frontier.settle([(lease, Complete()) for lease in leases])
        done += len(leases)
        clock.advance(0.05)
    assert (done, clock.seconds > 0) == (300, True)


async def test_a_suspect_waits_delayed_and_explain_says_why(frontier, clock):
    await suspects(frontier, clock, 2)
    [lease] = await frontier.claim()
    other = page(1, "h1.example").url
    explanation = await frontier.admin.explain(other)
    assert explanation.state == "delayed"
    assert "a worker was lost while holding" in explanation.text
    assert lease.url != other


async def test_a_cancelled_crawl_drops_what_its_workers_lost(frontier, clock):
    await frontier.enqueue([page(1), page(2)])
    one, _ = await frontier.claim(2)
    await frontier.admin.cancel()
    await frontier.settle([(one, Strike("it blocked"))])
    clock.advance(10)
    assert await frontier.claim() == []
    stats = await frontier.admin.stats()
    assert (stats.discarded, stats.dead, stats.conserved) == (2, 0, True)


async def test_an_unknown_way_to_ask_for_suspects_is_refused(frontier):
    with pytest.raises(ConfigError, match="any, alone, beside, none"):
        await frontier.claim(suspects="maybe")


@pytest.mark.parametrize("verdict", [Complete(), Release(), RetryIn(5.0), Bury("status 404")])
async def test_a_request_whose_worker_only_lost_its_connection_is_not_buried(verdict, open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await struck(frontier, clock, strikes=2)
    [lease] = await frontier.claim()
    assert lease.crashes == 2
    clock.advance(10)
    await frontier.claim()
    assert [letter.reason for letter in await frontier.admin.dead()] == ["crashed"]
    outcome = await frontier.settle([(lease, verdict)])
    assert outcome.lost == [lease]
    assert (await frontier.admin.stats()).dead == 0
    assert await frontier.admin.dead_groups() == []
    [again] = await frontier.claim()
    assert (again.url, again.crashes, again.suspect) == (lease.url, 2, True)
    await frontier.complete(again)
    stats = await frontier.admin.stats()
    assert (stats.done, stats.conserved) == (1, True)


@pytest.mark.parametrize("verdict", [Strike("it blocked the event loop"), Suspect()])
async def test_a_request_whose_worker_is_said_to_be_lost_stays_buried(verdict, open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await struck(frontier, clock, strikes=2)
    [lease] = await frontier.claim()
    clock.advance(10)
    await frontier.claim()
    await frontier.settle([(lease, verdict)])
    assert (await frontier.admin.stats()).dead == 1


async def test_a_request_that_was_buried_for_another_reason_stays_buried(open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await struck(frontier, clock, strikes=2)
    [lease] = await frontier.claim()
    await frontier.settle([(lease, Strike("it blocked the event loop for 30 s"))])
    await frontier.settle([(lease, Release())])
    assert [letter.reason for letter in await frontier.admin.dead()] == ["it blocked the event loop for 30 s"]


async def test_a_request_that_stops_its_worker_each_time_for_a_while_is_buried_in_the_end(open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await struck(frontier, clock, strikes=2)
    attempts = 0
    while leases := await frontier.claim():
        [lease] = leases
        attempts = lease.attempt
        clock.advance(10)
        await frontier.claim()
        await frontier.settle([(lease, Release())])
    assert attempts == 10
    assert (await frontier.admin.stats()).dead == 1


RETURNS = [Complete(), Release(), RetryIn(5.0), Bury("status 404"), "extend"]


async def returns(frontier, lease, how):
    """The worker of a lease that expired has its connection back."""
    if how == "extend":
        assert await frontier.extend([lease]) == [lease]
    else:
        assert (await frontier.settle([(lease, how)])).lost == [lease]


async def expire(frontier, clock, *, strikes):
    """Claim the only suspect, and let its lease expire; *strikes* is how many it had."""
    [lease] = await frontier.claim()
    assert lease.crashes == strikes
    clock.advance(10)
    await frontier.claim(suspects="none")
    return lease


@pytest.fixture
async def tried(open_crawl, clock):
    """A crawl with one suspect that no worker has begun."""
    frontier = await open_crawl(politeness=AT_ONCE)
    await suspects(frontier, clock, 1)
    return frontier


@pytest.mark.parametrize("how", RETURNS)
async def test_a_strike_is_withdrawn_while_the_request_waits(how, tried, clock):
    lease = await expire(tried, clock, strikes=0)
    await returns(tried, lease, how)
    await tried.enqueue(page("fresh"))
    beside = await tried.claim(4, suspects="beside")
    assert [(one.suspect, one.crashes) for one in beside] == [(True, 0), (False, 0)]
    assert not beside.isolate


@pytest.mark.parametrize("how", RETURNS)
async def test_a_strike_is_withdrawn_while_another_worker_has_the_request(how, tried, clock):
    lease = await expire(tried, clock, strikes=0)
    [other] = await tried.claim()
    assert other.crashes == 1
    await returns(tried, lease, how)
    clock.advance(10)
    [again] = await tried.claim()
    assert again.crashes == 1, "that of the other worker"


@pytest.mark.parametrize("how", RETURNS)
@pytest.mark.parametrize("ending", [Release(), RetryIn(0), RetryIn(3)])
async def test_a_strike_is_withdrawn_after_another_worker_gave_the_request_back(how, ending, tried, clock):
    lease = await expire(tried, clock, strikes=0)
    [other] = await tried.claim()
    await tried.settle([(other, ending)])
    await returns(tried, lease, how)
    clock.advance(3)
    [again] = await tried.claim()
    assert (again.suspect, again.crashes) == (True, 0)


@pytest.mark.parametrize("how", RETURNS)
@pytest.mark.parametrize("which", [0, 1, 2])
async def test_a_buried_request_waits_again_whichever_of_its_workers_returns(which, how, tried, clock):
    leases = [await expire(tried, clock, strikes=strikes) for strikes in range(3)]
    assert [letter.reason for letter in await tried.admin.dead()] == ["crashed"]
    await returns(tried, leases[which], how)
    stats = await tried.admin.stats()
    assert (stats.dead, stats.delayed, stats.conserved) == (0, 1, True)
    assert await tried.admin.dead_groups() == []
    [again] = await tried.claim()
    assert (again.suspect, again.crashes) == (True, 2)


async def test_a_request_whose_workers_all_return_has_no_strike(tried, clock):
    leases = [await expire(tried, clock, strikes=strikes) for strikes in range(3)]
    await tried.settle([(lease, Release()) for lease in leases])
    [again] = await tried.claim()
    assert (again.suspect, again.crashes, again.attempt) == (True, 0, 5)
    await tried.complete(again)
    stats = await tried.admin.stats()
    assert (stats.done, stats.conserved) == (1, True)


async def test_a_strike_is_withdrawn_once(tried, clock):
    one = await expire(tried, clock, strikes=0)
    await expire(tried, clock, strikes=1)
    for how in ("extend", Release(), Complete(), "extend"):
        await returns(tried, one, how)
    [again] = await tried.claim()
    assert again.crashes == 1
    await returns(tried, one, Release())
    await tried.release(again)
    assert [lease.crashes for lease in await tried.claim()] == [1]


async def test_the_same_worker_may_lose_its_connection_again_and_again(tried, clock):
    for _ in range(6):
        lease = await expire(tried, clock, strikes=0)
        await returns(tried, lease, "extend")
    assert (await tried.admin.stats()).dead == 0


@pytest.mark.parametrize("report", [Strike("it blocked the event loop"), Suspect()])
async def test_a_report_of_a_lost_worker_withdraws_no_strike_and_makes_it_final(report, tried, clock):
    lease = await expire(tried, clock, strikes=0)
    await returns(tried, lease, report)
    await returns(tried, lease, Release())
    assert [one.crashes for one in await tried.claim()] == [1]


async def test_a_strike_that_was_reported_is_not_withdrawn(tried, clock):
    [lease] = await tried.claim()
    await tried.settle([(lease, Strike("it blocked the event loop"))])
    await returns(tried, lease, Release())
    assert [one.crashes for one in await tried.claim()] == [1]


async def test_a_third_strike_that_was_reported_buries_only_with_two_others(tried, clock):
    one, _ = [await expire(tried, clock, strikes=strikes) for strikes in range(2)]
    [last] = await tried.claim()
    await tried.settle([(last, Strike("it blocked the event loop"))])
    assert (await tried.admin.stats()).dead == 1
    await returns(tried, one, Release())
    assert (await tried.admin.stats()).dead == 0
    assert [lease.crashes for lease in await tried.claim()] == [2]


async def test_a_request_that_another_worker_buried_stays_buried(tried, clock):
    lease = await expire(tried, clock, strikes=0)
    [other] = await tried.claim()
    await tried.bury(other, "status 404", 404)
    await returns(tried, lease, Release())
    [letter] = await tried.admin.dead()
    assert (letter.reason, letter.crashes) == ("status 404", 1)


async def test_a_request_that_another_worker_completed_is_done(tried, clock):
    lease = await expire(tried, clock, strikes=0)
    [other] = await tried.claim()
    await tried.complete(other)
    await returns(tried, lease, Release())
    assert await tried.finished()


async def test_strikes_of_a_request_that_was_revived_are_counted_from_zero(tried, clock):
    old = [await expire(tried, clock, strikes=strikes) for strikes in range(3)]
    await tried.admin.revive()
    await tried.claim()
    clock.advance(10)
    await expire(tried, clock, strikes=0)
    for lease in old:
        await returns(tried, lease, Release())
    assert [lease.crashes for lease in await tried.claim()] == [1]


async def test_strikes_are_withdrawn_in_requests_with_fewer_than_ten_attempts(tried, clock):
    """A page may stop its worker for a while every time."""
    for strikes in [0] * 9 + [1, 2]:  # of the second attempt to the twelfth
        lease = await expire(tried, clock, strikes=strikes)
        await returns(tried, lease, "extend")
    assert [(letter.attempts, letter.crashes) for letter in await tried.admin.dead()] == [(12, 3)]


async def test_a_strike_stays_when_another_worker_makes_the_tenth_attempt(tried, clock):
    for _ in range(7):
        lease = await expire(tried, clock, strikes=0)
        await returns(tried, lease, "extend")
    ninth = await expire(tried, clock, strikes=0)
    [tenth] = await tried.claim()
    assert (tenth.attempt, tenth.crashes) == (10, 1)
    await returns(tried, ninth, "extend")
    await tried.release(tenth)
    assert [lease.crashes for lease in await tried.claim()] == [1]


async def test_late_and_current_verdicts_on_a_request_may_come_together(tried, clock):
    one = await expire(tried, clock, strikes=0)
    two = await expire(tried, clock, strikes=1)
    [current] = await tried.claim()
    outcome = await tried.settle([(one, Release()), (current, Strike("it blocked")), (two, Complete())])
    assert set(outcome.lost) == {one, two}
    assert [lease.crashes for lease in await tried.claim()] == [1]


async def test_strikes_are_withdrawn_per_request(open_crawl, clock):
    frontier = await open_crawl(politeness=AT_ONCE)
    await suspects(frontier, clock, 3)
    leases = [lease for _ in range(3) for lease in await frontier.claim()]
    clock.advance(10)
    await frontier.claim(suspects="none")
    await frontier.extend(leases[:2])
    crashes = {lease.url: lease.crashes for _ in range(3) for lease in await frontier.claim()}
    assert [crashes[lease.url] for lease in leases] == [0, 0, 1]
