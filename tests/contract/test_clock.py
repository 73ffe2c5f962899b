"""The server's clock is set back: the crawl goes on as if nothing had happened."""

from itertools import pairwise

import pytest

from silkline import Politeness, Request

HOUR = 3600.0
PAGES = [f"https://a.example/{number}" for number in range(6)]


@pytest.fixture
async def slow(open_crawl):
    """A crawl of one host with a delay of 9 s."""
    frontier = await open_crawl(politeness=Politeness(delay=9, concurrency=10))
    await frontier.enqueue(PAGES)
    return frontier


async def claims(frontier, clock, seconds):
    """After how many of these seconds a claim got something, a look every tenth of a second."""
    got = []
    for tenths in range(round(seconds * 10) + 1):
        got += [tenths / 10 for _ in await frontier.claim(5)]
        clock.advance(0.1)
    return got


@pytest.mark.parametrize("by", [0.8, 2, 60, HOUR, 24 * HOUR])
async def test_a_host_opens_when_its_delay_is_over_whatever_the_step(slow, clock, by):
    """The crawl's clock goes on as fast as before: workers that know how far it is from theirs go on to know it."""
    assert len(await slow.claim(5)) == 1
    clock.advance(-by)
    assert await claims(slow, clock, 27) == [9, 18, 27]


async def test_it_may_be_set_back_again_and_again(slow, clock):
    assert len(await slow.claim(5)) == 1
    times = [0.0]
    for turn in range(4):
        clock.advance(-HOUR)
        times += [10 * turn + after for after in await claims(slow, clock, 9.9)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(gaps) >= 3
    assert min(gaps) >= 8.99


async def test_what_a_lost_worker_held_is_rescued_in_time(frontier, clock):
    await frontier.enqueue(PAGES[:1])
    [lost] = await frontier.claim(lease=9)
    clock.advance(-HOUR)
    [after] = await claims(frontier, clock, 10.1)
    assert after >= 9
    assert (await frontier.admin.stats()).rescued == 1
    assert await frontier.extend([lost]) == [lost]


async def test_tokens_and_expiries_grow(frontier, clock):
    await frontier.enqueue(PAGES)
    leases = []
    for _ in PAGES:
        leases += await frontier.claim()
        clock.advance(-HOUR)
    assert [lease.token for lease in leases] == sorted({lease.token for lease in leases})
    assert [lease.expires for lease in leases] == sorted(lease.expires for lease in leases)


async def test_what_is_noted_before_the_next_claim_counts_from_when_it_was(frontier, clock):
    await frontier.enqueue(PAGES)
    [lease] = await frontier.claim()
    clock.advance(-HOUR)
    await frontier.retry(lease, after=9, block_host=True)
    assert (await frontier.admin.hosts("a.example"))[0].opens_in == 9
    assert min(await claims(frontier, clock, 10.1)) >= 9


async def test_what_is_delayed_comes_when_it_is_due(frontier, clock):
    await frontier.enqueue(PAGES[:1])
    [lease] = await frontier.claim()
    await frontier.retry(lease, after=9)
    clock.advance(-HOUR)
    [after] = await claims(frontier, clock, 10.1)
    assert after >= 9


async def test_a_lease_says_by_how_much_the_crawls_clock_is_ahead_and_that_stays(frontier, clock):
    await frontier.enqueue(PAGES[:1])
    [lease] = await frontier.claim(lease=5)
    assert (lease.ahead, lease.expires) == (0, clock.seconds + 5)
    await frontier.release(lease)
    clock.advance(-60)
    for _ in range(3):
        [lease] = await frontier.claim(lease=5)
        assert lease.ahead == 60
        assert lease.expires == clock.seconds + 60 + 5
        await frontier.release(lease)
        clock.advance(1000)


async def test_times_that_people_set_and_see_are_those_of_the_server(frontier, clock):
    await frontier.enqueue(PAGES[:1])
    [lease] = await frontier.claim()
    clock.advance(-HOUR)
    assert await frontier.claim() == []
    await frontier.bury(lease, "gone")
    [letter] = await frontier.admin.dead()
    assert letter.last == clock.seconds
    assert letter.first == clock.seconds
    clock.advance(10)
    assert await frontier.admin.dead(older_than=11) == []
    assert await frontier.admin.dead(older_than=9, newer_than=11) == [letter]
    assert (await frontier.admin.count_dead(newer_than=9)).total == 0

    await frontier.admin.set_host("b.example", block_until=clock.seconds + 30)
    assert (await frontier.admin.hosts("b.example"))[0].blocked_until == clock.seconds + 30
    await frontier.enqueue([Request("https://c.example/", not_before=clock.seconds + 20), "https://b.example/"])
    assert "in 20 s" in (await frontier.admin.explain("https://c.example/")).text
    assert [round(after) for after in await claims(frontier, clock, 31)][:2] == [20, 30]


async def test_what_is_revived_by_its_age_counts_from_the_servers_time(frontier, clock):
    await frontier.enqueue(PAGES[:1])
    [lease] = await frontier.claim()
    clock.advance(-HOUR)
    await frontier.claim()
    await frontier.bury(lease, "gone")
    clock.advance(10)
    assert await frontier.admin.revive(older_than=11) == 0
    assert await frontier.admin.revive(older_than=9) == 1
