"""How gently hosts are treated."""

from __future__ import annotations

import pytest

from silkline import Complete, Politeness
from silkline.errors import ConfigError
from silkline.frontier.verbs.claim import StartReport
from tests.contract.frontiers import hosts_of, page, paths


async def test_a_delay_lies_between_two_starts(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=2, concurrency=10), lease=1000)
    await frontier.enqueue([page(number) for number in range(3)])
    assert paths(await frontier.claim(10)) == ["0"]
    clock.advance(1.999)
    assert await frontier.claim(10) == []
    clock.advance(0.001)
    assert paths(await frontier.claim(10)) == ["1"]
    clock.advance(100)
    assert paths(await frontier.claim(10)) == ["2"]


async def test_slack_is_added_to_the_delay(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=2, concurrency=10), lease=1000)
    await frontier.enqueue([page(number) for number in range(3)])
    assert paths(await frontier.claim(10, slack=0.5)) == ["0"]
    clock.advance(2.499)
    assert await frontier.claim(10, slack=0.5) == []
    clock.advance(0.001)
    assert paths(await frontier.claim(10)) == ["1"]
    clock.advance(2)
    assert paths(await frontier.claim(10)) == ["2"]


async def test_slack_is_not_added_for_hosts_whose_requests_start_at_once(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=2, concurrency=10), lease=1000)
    await frontier.enqueue([page(number) for number in range(3)])
    await frontier.enqueue([f"https://b.example/{number}" for number in range(3)])
    assert len(await frontier.claim(10, slack=0.5, prompt=["b.example", "c.example"])) == 2
    clock.advance(2)
    assert [lease.host for lease in await frontier.claim(10, slack=0.5)] == ["b.example"]
    with pytest.raises(ConfigError, match="host"):
        await frontier.claim(1, slack=0.5, prompt=["b.example c.example"])


@pytest.mark.parametrize(("delay", "burst", "each"), [(0.0002, 1, 1), (0.0002, 101, 5), (0.003334, 7, None)])
async def test_a_delay_may_be_a_fraction_of_a_millisecond(open_crawl, clock, delay, burst, each):
    frontier = await open_crawl(lease=1000)
    await frontier.admin.set_host("a.example", delay=delay, burst=burst, concurrency=5000)
    await frontier.enqueue([page(number) for number in range(3000)])
    [host] = await frontier.admin.hosts("a.example")
    assert host.delay == delay
    started = [len(await frontier.claim(1000))]
    for _ in range(200):
        clock.advance(0.001)
        started.append(len(await frontier.claim(1000)))
    assert started[0] == burst
    assert set(started[1:]) == ({each} if each else {0, 1})
    if each is None:
        assert sum(started) == burst + int(200 / (delay * 1000))
    clock.advance(1)
    assert len(await frontier.claim(1000)) == burst, "no more than the burst is saved up"


async def claimed_with_slack(open_crawl, clock, slack=0.5):
    """A lease of a host with a delay of 2 s and more requests, and when it was claimed."""
    frontier = await open_crawl(politeness=Politeness(delay=2, concurrency=10), lease=1000)
    await frontier.enqueue([page(number) for number in range(4)])
    [lease] = await frontier.claim(10, slack=slack)
    return frontier, lease, lease.expires - 1000


@pytest.mark.parametrize("used", [0.2, 0.0, -0.1])
async def test_a_host_opens_one_delay_after_a_start_that_was_reported(open_crawl, clock, used):
    frontier, lease, claimed = await claimed_with_slack(open_crawl, clock)
    clock.advance(1)
    assert await frontier.internal.started([StartReport(lease, claimed, 0.5, used)]) == {lease: 2.0}
    clock.advance(0.999 + used)
    assert await frontier.claim(10) == []
    clock.advance(0.001)
    assert paths(await frontier.claim(10)) == ["1"]


async def test_a_start_is_reported_once(open_crawl, clock):
    frontier, lease, claimed = await claimed_with_slack(open_crawl, clock)
    start = StartReport(lease, claimed, 0.5, 0.0)
    assert await frontier.internal.started([start, start]) == {lease: 2.0}
    assert await frontier.internal.started([start]) == {}
    clock.advance(1.999)
    assert await frontier.claim(10) == []


async def test_a_late_report_changes_nothing_for_a_host_that_was_claimed_again(open_crawl, clock):
    frontier, first, claimed = await claimed_with_slack(open_crawl, clock)
    clock.advance(2.5)
    [second] = await frontier.claim(10, slack=0.5)
    assert await frontier.internal.started([StartReport(first, claimed, 0.5, 0.0)]) == {}
    clock.advance(2.499)
    assert await frontier.claim(10) == []
    await frontier.complete(second)
    assert await frontier.internal.started([StartReport(second, claimed + 2.5, 0.5, 0.0)]) == {}  # its lease has ended


async def test_a_page_that_used_all_of_its_slack_has_none_to_return(open_crawl, clock):
    frontier, lease, claimed = await claimed_with_slack(open_crawl, clock)
    assert await frontier.internal.started([StartReport(lease, claimed, 0.5, 0.5)]) == {}
    clock.advance(2.499)
    assert await frontier.claim(10) == []


async def test_slack_without_a_delay_is_nothing(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=10))
    await frontier.enqueue([page(number) for number in range(3)])
    assert len(await frontier.claim(1, slack=5)) == 1
    assert len(await frontier.claim(10, slack=5)) == 2


@pytest.mark.parametrize("slack", [-0.1, 61, "1", None, float("nan")])
async def test_a_slack_that_means_nothing_is_refused(open_crawl, slack):
    frontier = await open_crawl()
    with pytest.raises(ConfigError, match="slack"):
        await frontier.claim(1, slack=slack)


async def test_another_pace_holds_for_all_from_now_on(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=100, concurrency=1), lease=1000)
    await frontier.enqueue([page(number) for number in range(5)])
    first = await frontier.claim(10)
    assert paths(first) == ["0"]
    await frontier.admin.set_politeness(Politeness(delay=2, concurrency=2))
    assert frontier.layout.settings.politeness == Politeness(delay=2, concurrency=2)
    other = await open_crawl(politeness=Politeness(delay=2, concurrency=2))
    clock.advance(1.999)
    assert await other.claim(10) == []
    clock.advance(0.001)
    second = await other.claim(10)  # though the first is still under way
    assert paths(second) == ["1"]
    clock.advance(2)
    assert await other.claim(10) == []  # two are under way
    await frontier.admin.set_politeness(Politeness(delay=2, concurrency=1))
    await frontier.complete(first[0])
    assert await other.claim(10) == []  # one is, and no more may
    await other.complete(second[0])
    assert paths(await other.claim(10)) == ["2"]


async def test_a_host_that_rests_without_requests_does_not_rest_by_an_old_pace(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=100))
    await frontier.enqueue(page(0))
    await frontier.complete((await frontier.claim(1))[0])
    await frontier.admin.set_politeness(Politeness(delay=1))
    await frontier.enqueue(page(1))
    assert await frontier.claim(1) == []
    clock.advance(1)
    assert paths(await frontier.claim(1)) == ["1"]


async def test_a_host_with_a_delay_of_its_own_keeps_it(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=1), lease=1000)
    await frontier.enqueue([page(0), page(1)])
    [host] = hosts_of(await frontier.claim(1))
    await frontier.admin.set_host(host, delay=50, concurrency=5)
    await frontier.admin.set_politeness(Politeness(delay=2))
    assert (await frontier.admin.set_host(host)).delay == 50
    clock.advance(49.9)
    assert await frontier.claim(1) == []
    clock.advance(0.1)
    assert paths(await frontier.claim(1)) == ["1"]


async def test_many_hosts_take_on_another_pace(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=1000), shards=3)
    urls = [f"https://h{number}.example/{path}" for number in range(1500) for path in "ab"]
    await frontier.enqueue(urls)
    leases = [lease for _ in range(3) for lease in await frontier.claim(1000)]
    assert len(leases) == 1500
    await frontier.settle([(lease, Complete()) for lease in leases])
    await frontier.admin.set_politeness(Politeness(delay=1))
    clock.advance(1)
    assert len([lease for _ in range(3) for lease in await frontier.claim(1000)]) == 1500


async def test_a_long_rest_earns_no_extra_starts(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=2, concurrency=10), lease=10_000)
    await frontier.enqueue([page(number) for number in range(3)])
    await frontier.claim(10)
    clock.advance(1000)
    assert len(await frontier.claim(10)) == 1
    assert await frontier.claim(10) == []


async def test_no_more_are_in_progress_than_the_concurrency(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=2))
    await frontier.enqueue([page(number) for number in range(5)])
    first, second = await frontier.claim(10)
    assert await frontier.claim(10) == []
    await frontier.complete(first)
    assert paths(await frontier.claim(10)) == ["2"]
    await frontier.retry(second, after=60)
    assert paths(await frontier.claim(10)) == ["3"]
    assert await frontier.claim(10) == []


@pytest.mark.parametrize("ending", ["complete", "release", "retry", "bury", "rescue"])
async def test_every_ending_of_a_lease_frees_its_place(open_crawl, clock, ending):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=1))
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim(10)
    assert await frontier.claim(10) == []
    if ending == "rescue":
        clock.advance(10)
    else:
        await getattr(frontier, ending)(lease, **({"reason": "no"} if ending == "bury" else {}))
    assert len(await frontier.claim(10)) == 1


async def test_a_burst_may_start_at_once_after_a_rest(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10, concurrency=100, burst=3), lease=10_000)
    await frontier.enqueue([page(number) for number in range(20)])
    assert len(await frontier.claim(100)) == 3
    assert await frontier.claim(100) == []
    clock.advance(10)
    assert len(await frontier.claim(100)) == 1
    clock.advance(25)
    assert len(await frontier.claim(100)) == 2
    clock.advance(5)
    assert len(await frontier.claim(100)) == 1
    clock.advance(1000)
    assert len(await frontier.claim(100)) == 3


async def test_a_burst_is_bounded_by_the_concurrency(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10, concurrency=2, burst=5))
    await frontier.enqueue([page(number) for number in range(9)])
    first = await frontier.claim(100)
    assert len(first) == 2
    await frontier.complete(first[0])
    assert len(await frontier.claim(100)) == 1


async def test_a_host_whose_queue_ran_empty_keeps_its_next_slot(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10, concurrency=5))
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.enqueue(page(2))
    assert await frontier.claim() == []
    await frontier.complete(lease)
    await frontier.enqueue(page(3))
    assert await frontier.claim() == []
    clock.advance(9.999)
    assert await frontier.claim() == []
    clock.advance(0.001)
    assert len(await frontier.claim(10)) == 1


async def test_a_host_that_is_done_keeps_its_next_slot(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10))
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    clock.advance(5)
    await frontier.enqueue([page(2), page(1, "b.example")])
    assert hosts_of(await frontier.claim(10)) == ["b.example"]
    clock.advance(5)
    assert hosts_of(await frontier.claim(10)) == ["a.example"]


async def test_a_host_whose_rest_is_over_opens_at_once(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10))
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    clock.advance(10)
    assert await frontier.claim() == []
    await frontier.enqueue(page(2))
    assert len(await frontier.claim()) == 1


async def test_a_burst_spent_before_a_host_ran_empty_stays_spent(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10, concurrency=9, burst=2))
    await frontier.enqueue([page(1), page(2)])
    for lease in await frontier.claim(5):
        await frontier.complete(lease)
    await frontier.enqueue([page(3), page(4)])
    assert await frontier.claim(5) == []
    clock.advance(10)
    assert len(await frontier.claim(5)) == 1


async def test_released_requests_do_not_give_the_slot_back(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10))
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.release(lease)
    assert await frontier.claim() == []
    clock.advance(10)
    assert len(await frontier.claim()) == 1


async def test_hosts_do_not_slow_each_other(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=10))
    await frontier.enqueue([page(1), page(2), page(1, "b.example"), page(1, "a.example:8080"), page(1, "x.a.example")])
    assert sorted(hosts_of(await frontier.claim(10))) == ["a.example", "a.example:8080", "b.example", "x.a.example"]


async def test_a_host_can_have_a_pace_of_its_own(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=1, concurrency=1))
    state = await frontier.admin.set_host("a.example", delay=5, concurrency=3, burst=2)
    assert (state.delay, state.concurrency, state.burst) == (5, 3, 2)
    await frontier.enqueue([page(number) for number in range(5)] + [page(number, "b.example") for number in range(2)])
    assert sorted(hosts_of(await frontier.claim(10))) == ["a.example", "a.example", "b.example"]
    clock.advance(1)
    assert await frontier.claim(10) == []
    clock.advance(4)
    assert hosts_of(await frontier.claim(10)) == ["a.example"]


async def test_a_field_set_to_none_returns_to_the_crawls_pace(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=1, concurrency=1))
    await frontier.admin.set_host("a.example", delay=0, concurrency=4, burst=2)
    state = await frontier.admin.set_host("a.example", delay=None, burst=None)
    assert (state.delay, state.concurrency, state.burst) == (1, 4, 1)
    state = await frontier.admin.set_host("a.example", concurrency=None)
    assert (state.delay, state.concurrency, state.burst) == (1, 1, 1)
    assert await frontier.admin.hosts() == []


@pytest.mark.parametrize("queue", ["waiting", "empty"])
async def test_another_delay_holds_at_once(open_crawl, clock, queue):
    frontier = await open_crawl(politeness=Politeness(delay=1000, concurrency=9), lease=10_000)
    await frontier.enqueue([page(1), page(2)] if queue == "waiting" else page(1))
    await frontier.claim()
    clock.advance(500)
    await frontier.admin.set_host("a.example", delay=10)
    await frontier.enqueue(page(2))
    assert (await frontier.admin.hosts("a.example"))[0].opens_in == 5
    await frontier.admin.set_host("a.example", delay=20)
    clock.advance(9.999)
    assert await frontier.claim() == []
    clock.advance(0.001)
    assert paths(await frontier.claim()) == ["2"]


@pytest.mark.parametrize("done", [True, False])
async def test_without_a_delay_a_host_opens_at_once(open_crawl, done):
    frontier = await open_crawl(politeness=Politeness(delay=86_400, concurrency=9))
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    if done:
        await frontier.complete(lease)
    await frontier.admin.set_host("a.example", delay=0)
    await frontier.enqueue(page(2))
    assert paths(await frontier.claim()) == ["2"]


async def test_more_concurrency_opens_a_busy_host_at_once_and_less_closes_it(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=1))
    await frontier.enqueue([page(number) for number in range(9)])
    held = await frontier.claim(10)
    await frontier.admin.set_host("a.example", concurrency=4)
    held += await frontier.claim(10)
    assert len(held) == 4
    await frontier.admin.set_host("a.example", concurrency=2)
    for lease in held[:2]:
        await frontier.complete(lease)
        assert await frontier.claim(10) == []
    await frontier.complete(held[2])
    assert len(await frontier.claim(10)) == 1


async def test_a_host_can_be_blocked_until_a_time(open_crawl, clock):
    frontier = await open_crawl(lease=100)
    await frontier.enqueue([page(1), page(2), page(1, "b.example")])
    state = await frontier.admin.set_host("a.example", block_until=clock.seconds + 30)
    assert (state.place, state.opens_in, state.blocked_until) == ("waiting", 30, clock.seconds + 30)
    assert hosts_of(await frontier.claim(10)) == ["b.example"]
    clock.advance(29.999)
    assert await frontier.claim(10) == []
    clock.advance(0.001)
    assert paths(await frontier.claim(10)) == ["1", "2"]


async def test_a_host_can_be_blocked_before_it_has_anything(frontier, clock):
    await frontier.admin.set_host("a.example", block_until=clock.seconds + 30)
    await frontier.enqueue(page(1))
    assert await frontier.claim() == []
    clock.advance(30)
    assert len(await frontier.claim()) == 1


async def test_a_block_can_be_lifted(frontier, clock):
    await frontier.enqueue(page(1))
    await frontier.admin.set_host("a.example", block_until=clock.seconds + 30)
    state = await frontier.admin.set_host("a.example", block_until=None)
    assert (state.place, state.blocked_until) == ("ready", None)
    assert len(await frontier.claim()) == 1


async def test_a_paused_host_gives_nothing_until_it_is_resumed(open_crawl, clock):
    frontier = await open_crawl(lease=86_400)
    await frontier.enqueue([page(1), page(1, "b.example")])
    await frontier.admin.pause("a.example")
    assert (await frontier.admin.hosts("a.example"))[0].place == "paused"
    assert hosts_of(await frontier.claim(10)) == ["b.example"]
    clock.advance(80_000)
    await frontier.enqueue(page(2, priority=9))
    assert await frontier.claim(10) == []
    await frontier.admin.resume("a.example")
    assert paths(await frontier.claim(10)) == ["2", "1"]


async def test_a_host_can_be_paused_before_it_has_anything(frontier):
    await frontier.admin.pause("a.example")
    await frontier.enqueue(page(1))
    assert await frontier.claim() == []
    await frontier.admin.resume("a.example")
    assert len(await frontier.claim()) == 1


async def test_what_a_paused_host_has_in_progress_may_still_end(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=1))
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim()
    await frontier.admin.pause("a.example")
    await frontier.complete(lease, [page(3)])
    assert await frontier.claim(10) == []
    await frontier.admin.resume("a.example")
    assert paths(await frontier.claim(10)) == ["2"]


@pytest.mark.parametrize(
    "pace",
    [
        {"delay": -1},
        {"delay": 1e9},
        {"delay": float("nan")},
        {"delay": "fast"},
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"burst": 2.0},
        {"block_until": -1},
        {"block_until": float("inf")},
        {"block_until": 1e30},
        {"concurrency": 10**9},
        {"burst": 0},
        {"speed": 3},
    ],
)
async def test_a_pace_that_means_nothing_is_refused(frontier, pace):
    with pytest.raises(ConfigError):
        await frontier.admin.set_host("a.example", **pace)
    assert await frontier.admin.hosts() == []


@pytest.mark.parametrize("host", ["", None, 7])
async def test_a_host_has_a_name(frontier, host):
    with pytest.raises(ConfigError):
        await frontier.admin.set_host(host, delay=1)


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
async def test_an_empty_host_is_not_taken_for_the_whole_crawl(frontier, verb):
    await frontier.enqueue(page(1))
    with pytest.raises(ConfigError):
        await getattr(frontier.admin, verb)("")
    assert (await frontier.admin.stats()).state == "open"
    assert len(await frontier.claim()) == 1


async def test_a_host_that_is_in_line_stands_aside_when_the_cap_is_lowered(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=1, concurrency=3, burst=3))
    await frontier.enqueue([page(number) for number in range(6)])
    leases = await frontier.claim(2)
    assert (await frontier.admin.stats()).hosts_ready == 1
    await frontier.admin.set_politeness(Politeness(delay=1, concurrency=1))
    for left in (2, 1):
        [state] = await frontier.admin.hosts("a.example")
        assert (state.place, state.leased) == ("busy", left)
        await frontier.complete(leases.pop())
    stats = await frontier.admin.stats()
    assert (stats.hosts_ready, stats.hosts_waiting) == (0, 1)
    clock.advance(1)
    assert len(await frontier.claim(5)) == 1


async def test_a_host_that_is_in_line_does_not_rest_by_an_old_pace(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=100, concurrency=5, burst=3))
    await frontier.enqueue([page(number) for number in range(6)])
    assert len(await frontier.claim(2)) == 2  # of three, so it may start another
    await frontier.admin.set_politeness(Politeness(delay=2, concurrency=5, burst=1))
    [state] = await frontier.admin.hosts("a.example")
    assert (state.place, state.opens_in) == ("waiting", 2)
    clock.advance(2)
    assert len(await frontier.claim(2)) == 1


async def test_who_may_still_start_keeps_its_turn_when_the_pace_changes(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=5))
    await frontier.enqueue(
        [page(number, host) for number in range(4) for host in ("c.example", "b.example", "a.example")]
    )
    await frontier.claim(1)
    await frontier.admin.set_politeness(Politeness(delay=0, concurrency=1))
    assert hosts_of(await frontier.claim(3)) == ["b.example", "a.example"]


async def test_a_host_is_listed_for_its_pace_only_while_that_is_not_the_crawls(frontier, clock):
    await frontier.admin.set_host("a.example", block_until=clock.seconds + 3)
    await frontier.admin.set_host("b.example", delay=2)
    assert [state.host for state in await frontier.admin.hosts()] == ["a.example", "b.example"]
    clock.advance(3)
    assert [state.host for state in await frontier.admin.hosts()] == ["b.example"]
