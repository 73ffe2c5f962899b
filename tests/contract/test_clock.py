"""The server's clock is set back: the crawl goes on as if nothing had happened."""

from itertools import pairwise

import pytest

from silkline import Politeness

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


@pytest.mark.parametrize("by", [2, 60, HOUR, 24 * HOUR])
async def test_a_host_opens_when_its_delay_is_over(slow, clock, by):
    """The crawl's clock goes a tenth slower until the other has caught up, so it may be a little later; never sooner."""
    assert len(await slow.claim(5)) == 1
    clock.advance(-by)
    [first, second, *_] = await claims(slow, clock, 25)
    assert 9 <= first <= 10.1
    assert 9 <= second - first <= 10.1


async def test_a_clock_that_is_set_back_by_a_moment_stands_still(slow, clock):
    assert len(await slow.claim(5)) == 1
    clock.advance(-0.8)
    assert await claims(slow, clock, 10) == [9.8]


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
    assert (await frontier.stats()).rescued == 1
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
    assert (await frontier.hosts("a.example"))[0].opens_in == 9
    assert min(await claims(frontier, clock, 10.1)) >= 9


async def test_what_is_delayed_comes_when_it_is_due(frontier, clock):
    await frontier.enqueue(PAGES[:1])
    [lease] = await frontier.claim()
    await frontier.retry(lease, after=9)
    clock.advance(-HOUR)
    [after] = await claims(frontier, clock, 10.1)
    assert after >= 9


async def test_after_a_while_it_is_the_same_time_again(frontier, clock):
    await frontier.enqueue(PAGES[:1])
    assert await frontier.claim()
    clock.advance(-60)
    assert await frontier.claim() == []
    clock.advance(60 * 10 - 10)
    [ahead] = await frontier.claim(lease=5)
    assert ahead.expires == clock.seconds + 5 + 1
    clock.advance(10)
    [lease] = await frontier.claim(lease=5)
    assert lease.expires == clock.seconds + 5
