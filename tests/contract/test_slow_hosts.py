"""Sites that complain without saying for how long, and what robots.txt asks for."""

from __future__ import annotations

import pytest

from silkline import Politeness, RetryIn
from silkline.errors import ConfigError
from tests.contract.frontiers import hosts_of, page, paths


async def complain(frontier, clock, times=1):
    """The site complains of so many requests, one after the other, each claimed as soon as it may be."""
    for _ in range(times):
        while not (leases := await frontier.claim(1)):
            clock.advance((await frontier.admin.hosts("a.example"))[0].opens_in)
        await frontier.retry(leases[0], slow_host=True)
    return (await frontier.admin.hosts("a.example"))[0]


@pytest.fixture
async def polite(open_crawl):
    """A host with a delay of a second and many requests."""
    frontier = await open_crawl(politeness=Politeness(delay=1, concurrency=5), lease=80_000)
    await frontier.enqueue([page(number) for number in range(30)])
    return frontier


async def test_the_delay_doubles_and_counts_from_the_complaint(polite, clock):
    [lease] = await polite.claim(1)
    clock.advance(0.9)
    await polite.retry(lease, after=60, slow_host=True, reason="HTTP 429", status=429)
    [state] = await polite.admin.hosts("a.example")
    assert (state.delay, state.slowed_from, state.place, state.opens_in) == (2, 1, "waiting", 2)
    assert state.blocked_until is None
    clock.advance(1.999)
    assert await polite.claim(9) == []
    clock.advance(0.001)
    assert paths(await polite.claim(9)) == ["1"]
    clock.advance(1.9)
    assert await polite.claim(9) == []


async def test_the_request_itself_waits_as_long_as_it_was_reported(polite, clock):
    [lease] = await polite.claim(1)
    await polite.retry(lease, after=60, slow_host=True, reason="HTTP 503", status=503)
    assert (await polite.admin.explain(lease.url)).state == "delayed"
    await polite.admin.set_host("a.example", delay=0)
    clock.advance(60)
    assert (await polite.claim(1))[0].url == lease.url


async def test_each_complaint_doubles_it_again(polite, clock):
    delays = [(await complain(polite, clock)).delay for _ in range(6)]
    assert delays == [2, 4, 8, 16, 32, 64]


async def test_an_hour_is_the_most(polite, clock):
    assert (await complain(polite, clock, times=14)).delay == 3600


async def test_a_host_without_a_delay_is_slowed_to_a_quarter_of_a_second(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=5))
    await frontier.enqueue([page(number) for number in range(9)])
    state = await complain(frontier, clock)
    assert (state.delay, state.slowed_from, state.opens_in) == (0.25, 0, 0.25)
    assert len(await frontier.claim(9)) == 0
    clock.advance(1)
    assert len(await frontier.claim(9)) == 1


async def test_it_holds_in_full_until_one_request_could_show_how_the_site_is(polite, clock):
    await complain(polite, clock, times=6)
    clock.advance(64)
    [state] = await polite.admin.hosts("a.example")
    assert (state.delay, state.place) == (64, "waiting")
    await polite.claim(1)
    assert (await polite.admin.hosts("a.example"))[0].opens_in == 64


async def test_then_it_halves_every_minute_until_it_is_forgotten(polite, clock):
    await complain(polite, clock, times=3)
    clock.advance(8)
    for delay in (4, 2):
        clock.advance(60)
        [state] = await polite.admin.hosts("a.example")
        assert (state.delay, state.slowed_from) == (delay, 1)
    clock.advance(30)
    [state] = await polite.admin.hosts("a.example")
    assert (state.delay, state.slowed_from) == (1.414, 1)
    clock.advance(30)
    [state] = await polite.admin.hosts("a.example")
    assert (state.delay, state.slowed_from) == (1, None)
    assert len(await polite.claim(9)) == 1
    clock.advance(1)
    assert len(await polite.claim(9)) == 1


async def test_a_slow_down_that_has_decayed_leaves_nothing_behind(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=1))
    await frontier.enqueue([page(1)])
    await complain(frontier, clock)
    clock.advance(1000)
    [lease] = await frontier.claim(1)
    await frontier.complete(lease)
    assert await frontier.admin.hosts() == []


async def test_what_was_in_progress_when_it_was_slowed_does_not_slow_it_again(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=8))
    await frontier.enqueue([page(number) for number in range(20)])
    held = await frontier.claim(8)
    await frontier.settle([(lease, RetryIn(5, slow_host=True)) for lease in held[:4]])
    clock.advance(0.1)
    for lease in held[4:]:
        await frontier.retry(lease, after=5, slow_host=True)
    [state] = await frontier.admin.hosts("a.example")
    assert (state.delay, state.opens_in) == (0.25, 0.15)
    assert (await complain(frontier, clock)).delay == 0.5


async def test_while_it_is_slowed_there_is_no_burst(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=1, concurrency=9, burst=3), lease=1000)
    await frontier.enqueue([page(number) for number in range(20)])
    held = await frontier.claim(9)
    assert len(held) == 3
    await frontier.retry(held[0], slow_host=True)
    clock.advance(30)
    assert (await frontier.admin.hosts("a.example"))[0].burst == 1
    assert len(await frontier.claim(9)) == 1
    clock.advance(300)
    assert len(await frontier.claim(9)) == 3


async def test_a_burst_that_was_spent_stays_spent(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10, concurrency=9, burst=5))
    await frontier.enqueue([page(number) for number in range(5)])
    held = await frontier.claim(9)
    for lease in held[1:]:
        await frontier.complete(lease)
    await frontier.retry(held[0], after=1, slow_host=True)
    clock.advance(49)
    await frontier.enqueue(page(9))
    assert await frontier.claim(9) == []
    clock.advance(1)
    assert len(await frontier.claim(9)) == 1


async def test_a_host_with_nothing_else_is_slowed_for_what_comes(frontier, clock):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.retry(lease, after=100, slow_host=True)
    await frontier.enqueue([page(2), page(1, "b.example")])
    assert hosts_of(await frontier.claim(9)) == ["b.example"]
    clock.advance(1)
    assert paths(await frontier.claim(9)) == ["2"]


async def test_a_lost_lease_slows_nobody(frontier, clock):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    clock.advance(100)
    await frontier.claim()
    assert (await frontier.settle([(lease, RetryIn(0, slow_host=True))])).lost == [lease]
    assert (await frontier.admin.hosts("a.example"))[0].slowed_from is None


async def test_an_operators_delay_is_slowed_too_and_a_new_one_ends_it(polite, clock):
    await polite.admin.set_host("a.example", delay=3, burst=2)
    state = await complain(polite, clock)
    assert (state.delay, state.slowed_from) == (6, 3)
    state = await polite.admin.set_host("a.example", burst=3)
    assert (state.delay, state.burst) == (6, 1)
    state = await polite.admin.set_host("a.example", delay=0.5)
    assert (state.delay, state.slowed_from, state.burst, state.opens_in) == (0.5, None, 3, 0)


async def test_a_block_and_a_pause_leave_the_slow_down_alone(polite, clock):
    await complain(polite, clock)
    await polite.admin.set_host("a.example", block_until=clock.seconds + 2)
    await polite.admin.pause("a.example")
    clock.advance(2)
    await polite.admin.resume("a.example")
    [state] = await polite.admin.hosts("a.example")
    assert (state.delay, state.slowed_from, state.blocked_until, state.place) == (2, 1, None, "ready")


async def test_it_is_reported_in_words(polite, clock):
    state = await complain(polite, clock, times=2)
    assert state.pace == "slowed to 4 s, decaying to 1 s"
    assert "the site replied 429 or 503: its delay is slowed to 4 s" in (await polite.admin.explain(page(5))).text
    clock.advance(4 + 30)
    assert (await polite.admin.hosts("a.example"))[0].pace == "slowed to 2.83 s, decaying to 1 s"
    clock.advance(600)
    assert (await polite.admin.hosts("a.example"))[0].pace == "1 s"


async def test_a_host_is_blocked_or_slowed(polite):
    [lease] = await polite.claim()
    with pytest.raises(ConfigError, match="cannot be used together"):
        await polite.retry(lease, slow_host=True, block_host=True)


# ── robots.txt's Crawl-delay ─────────────────────────────────────────────────────────────────────────────────────────
async def test_the_longer_of_the_crawls_delay_and_that_of_robots_txt_holds(polite, clock):
    state = await polite.admin.set_host("a.example", crawl_delay=5)
    assert (state.delay, state.crawl_delay, state.slowed_from) == (5, 5, None)
    assert len(await polite.claim(9)) == 1
    clock.advance(4.999)
    assert await polite.claim(9) == []
    state = await polite.admin.set_host("a.example", crawl_delay=0.25)
    assert (state.delay, state.crawl_delay) == (1, 0.25)
    state = await polite.admin.set_host("a.example", crawl_delay=None)
    assert (state.delay, state.crawl_delay) == (1, None)


async def test_an_operators_delay_holds_whatever_robots_txt_asks(polite):
    await polite.admin.set_host("a.example", delay=0.5)
    state = await polite.admin.set_host("a.example", crawl_delay=30)
    assert (state.delay, state.crawl_delay) == (0.5, 30)
    state = await polite.admin.set_host("a.example", delay=None)
    assert (state.delay, state.crawl_delay) == (30, 30)


async def test_what_robots_txt_asks_is_slowed_too(polite, clock):
    await polite.admin.set_host("a.example", crawl_delay=5)
    state = await complain(polite, clock)
    assert (state.delay, state.slowed_from) == (10, 5)


@pytest.mark.parametrize("asked", [-1, 1e9, float("nan"), "slow"])
async def test_a_crawl_delay_that_means_nothing_is_refused(frontier, asked):
    with pytest.raises(ConfigError):
        await frontier.admin.set_host("a.example", crawl_delay=asked)


async def test_a_slow_down_outlasts_a_time_in_which_the_crawl_is_slower_still(polite, clock):
    await complain(polite, clock, times=3)
    await polite.admin.set_politeness(Politeness(delay=100, concurrency=5))
    await polite.keep_robots("https://b.example/", b"")  # at which the frontier looks for slow-downs that are over
    assert (await polite.admin.hosts("a.example"))[0].delay == 100
    await polite.admin.set_politeness(Politeness(delay=1, concurrency=5))
    assert (await polite.admin.hosts("a.example"))[0].delay == 8


async def test_a_complaint_of_a_request_from_before_the_last_one_is_the_same_again(polite, clock):
    """Also if the crawl is slower than the slow-down for a while, and what is over is forgotten meanwhile."""
    [early] = await polite.claim(1)
    clock.advance(1)
    assert (await complain(polite, clock, times=2)).delay == 4
    await polite.admin.set_politeness(Politeness(delay=100, concurrency=5))
    await polite.keep_robots("https://b.example/", b"")
    await polite.admin.set_politeness(Politeness(delay=1, concurrency=5))
    await polite.retry(early, slow_host=True)
    assert (await polite.admin.hosts("a.example"))[0].delay == 4
