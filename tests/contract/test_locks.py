"""Locks, semaphores and rate limiters, without waiting: on each frontier, in simulated time."""

from __future__ import annotations

import pytest

from silkline.errors import ConfigError, UnknownCrawl


async def test_a_lock_has_one_holder(frontier):
    lock = frontier.lock("report", 60)
    async with lock as held:
        assert held.token > 0
        assert not held.lost
        assert await frontier.lock("report", 60).acquire(wait=0) is None
        async with frontier.lock("other", 60) as other:
            assert other.token > held.token
    async with lock as again:
        assert again.token > other.token


async def test_a_holder_that_dies_loses_its_place_after_its_time(frontier, open_crawl, clock):
    dead = await frontier.lock("report", 60).acquire()
    successor = (await open_crawl()).lock("report", 60)
    clock.advance(59.999)
    assert await successor.acquire(wait=0) is None
    clock.advance(0.001)
    held = await successor.acquire(wait=0)
    assert held.token > dead.token
    await dead.release()  # which is late, and not its own any more
    assert await successor.acquire(wait=0) is None
    await held.release()


async def test_a_hold_may_be_released_twice(frontier):
    held = await frontier.lock("report").acquire()
    await held.release()
    async with frontier.lock("report"):
        await held.release()
        assert await frontier.lock("report").acquire(wait=0) is None


async def test_a_semaphore_has_as_many_holders_as_places(frontier):
    semaphore = frontier.semaphore("database", 3, 60)
    holds = [await semaphore.acquire(wait=0) for _ in range(4)]
    assert [bool(hold) for hold in holds] == [True, True, True, False]
    await holds[1].release()
    async with semaphore as held:
        assert held.token > holds[2].token
        assert await semaphore.acquire(wait=0) is None
    for hold in (holds[0], holds[2]):
        await hold.release()


async def test_a_lock_and_a_semaphore_of_the_same_name_are_two(frontier):
    async with frontier.lock("a"), frontier.semaphore("a", 1), frontier.limiter("a", 1):
        pass


async def test_a_limiter_is_exact_from_the_first_second(frontier, clock):
    limiter = frontier.limiter("api", "10/s", burst=10)
    assert [await limiter.try_acquire() for _ in range(19)] == [True] * 10 + [False] * 9
    started = 0
    for _ in range(1000):
        clock.advance(0.001)
        started += await limiter.try_acquire()
    assert started == 10


async def test_all_users_of_a_limiter_share_it(frontier, open_crawl):
    limiters = [(await open_crawl()).limiter("api", 1, burst=4) for _ in range(3)]
    assert sum([await limiters[turn % 3].try_acquire() for turn in range(12)]) == 4


async def test_a_limiter_may_have_a_limit_for_each_registrable_domain(frontier):
    async def start(site):
        return await frontier.limiter("pages", "1/h", burst=2, site=site).try_acquire()

    hosts = [
        "https://a.example.co.uk/x",
        "b.example.co.uk:8080",
        "https://example.co.uk/",
        "https://other.co.uk/",
        "127.0.0.1:81",
    ]
    assert [await start(site) for site in hosts] == [True, True, False, True, True]
    for wrong in ("https://", "a b", "", 5):
        with pytest.raises(ConfigError, match="site must be a URL or a host"):
            frontier.limiter("pages", 1, site=wrong)


async def test_who_does_not_want_to_wait_that_long_takes_nothing(frontier, clock):
    limiter = frontier.limiter("api", "1/h", burst=2)
    assert await limiter.acquire(wait=0)
    async with limiter:
        pass
    for _ in range(10):
        assert not await limiter.acquire(wait=3599)
    clock.advance(3600)
    assert await limiter.acquire(wait=0)


async def test_an_error_in_the_block_gives_the_lock_back(frontier):
    with pytest.raises(ZeroDivisionError):
        async with frontier.lock("report"):
            1 / 0  # noqa: B018
    async with frontier.lock("report"):
        pass


async def test_the_locks_of_a_crawl_are_removed_with_it(frontier, open_crawl):
    lock = frontier.lock("report", 60)
    held = await lock.acquire()
    limiter = frontier.limiter("api", "1/h")
    assert await limiter.try_acquire()
    await frontier.admin.remove()
    for call in (lock.acquire, limiter.try_acquire, held.release):
        with pytest.raises(UnknownCrawl):
            await call()
    new = await open_crawl()
    assert await new.limiter("api", "1/h").try_acquire()
    async with new.lock("report") as again:
        assert again.token


@pytest.mark.parametrize("name", ["", "x" * 513, 7, None, "\ud800"])
@pytest.mark.parametrize("make", ["lock", "semaphore", "limiter"])
async def test_a_name_that_cannot_be_stored_is_refused(frontier, make, name):
    with pytest.raises(ConfigError, match=f"the name of a {make} must be"):
        getattr(frontier, make)(name, **({"lock": {}, "semaphore": {"n": 1}, "limiter": {"rate": 1}}[make]))


@pytest.mark.parametrize("rate", [0, -1, "10", "10/w", "/s", "x/s", True, float("nan"), float("inf"), None])
async def test_a_rate_that_is_none_is_refused(frontier, rate):
    with pytest.raises(ConfigError, match="rate must be a number of permits per second"):
        frontier.limiter("api", rate)


async def test_other_wrong_arguments_are_refused(frontier):
    for burst in (0, 1.5, 10**7):
        with pytest.raises(ConfigError, match="burst must be"):
            frontier.limiter("api", 1, burst)
    for places in (0, 1001, 1.5):
        with pytest.raises(ConfigError, match="a semaphore has from 1 to 1000 places"):
            frontier.semaphore("database", places)
    for ttl in (0, 0.01, -1, "long"):
        with pytest.raises(ConfigError, match="ttl must be from"):
            frontier.lock("report", ttl)
    with pytest.raises(ConfigError, match="wait must be a number"):
        await frontier.lock("report").acquire(wait="long")
    with pytest.raises(ConfigError, match="wait must be a number"):
        await frontier.limiter("api", 1).acquire(wait=-1)
