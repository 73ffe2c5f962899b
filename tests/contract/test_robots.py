"""robots.txt is fetched once for the whole fleet."""

from __future__ import annotations

import pytest

from silkline import Budget, Politeness
from silkline.core.robots import MAX_BYTES
from silkline.errors import ConfigError, InvalidUrl
from tests.contract.frontiers import page

TEXT = b"User-agent: *\nDisallow: /private\n"
DAY = 86_400


async def test_the_first_to_ask_must_fetch_it_and_the_others_wait(frontier, open_crawl, clock):
    other = await open_crawl()
    assert (await frontier.robots("https://a.example/x?y"))[:3] == ("yours", None, 60)
    clock.advance(1)
    assert (await frontier.robots("https://a.example/"))[:3] == ("fetching", None, 59)
    assert (await other.robots("https://a.example/z"))[:3] == ("fetching", None, 59)


async def test_what_was_kept_is_known_to_all(frontier, open_crawl, clock):
    other = await open_crawl()
    await frontier.robots("https://a.example/")
    assert await frontier.keep_robots("https://a.example/robots.txt", TEXT)
    assert (await other.robots("https://a.example/page"))[:3] == ("known", TEXT, DAY)
    clock.advance(DAY - 1)
    assert (await other.robots("https://a.example/page"))[:3] == ("known", TEXT, 1)


async def test_when_it_is_no_longer_fresh_one_fetches_it_and_the_older_copy_holds_meanwhile(frontier, clock):
    await frontier.keep_robots("https://a.example/", TEXT, fresh=10)
    clock.advance(10)
    assert (await frontier.robots("https://a.example/", lock=5))[:3] == ("yours", TEXT, 5)
    assert (await frontier.robots("https://a.example/"))[:3] == ("fetching", TEXT, 5)
    await frontier.keep_robots("https://a.example/", b"")
    assert (await frontier.robots("https://a.example/"))[:3] == ("known", b"", DAY)


async def test_an_older_copy_is_useful_for_a_day(frontier, clock):
    await frontier.keep_robots("https://a.example/", TEXT, fresh=10)
    clock.advance(10 + DAY - 0.001)
    assert (await frontier.robots("https://a.example/", lock=0.001)).text == TEXT
    clock.advance(0.001)
    assert (await frontier.robots("https://a.example/"))[:3] == ("yours", None, 60)


async def test_a_fetcher_that_died_is_succeeded_by_another(frontier, clock):
    await frontier.robots("https://a.example/", lock=5)
    clock.advance(4.999)
    assert (await frontier.robots("https://a.example/")).state == "fetching"
    clock.advance(0.001)
    assert (await frontier.robots("https://a.example/")).state == "yours"


async def test_a_fetcher_that_was_away_too_long_may_still_keep_it(frontier, clock):
    await frontier.robots("https://a.example/", lock=5)
    clock.advance(10)
    await frontier.robots("https://a.example/", lock=5)
    await frontier.keep_robots("https://a.example/", TEXT)
    assert (await frontier.robots("https://a.example/")).state == "known"


async def test_one_that_cannot_be_fetched_is_known_to_be_unreachable(frontier, clock):
    await frontier.robots("https://a.example/")
    await frontier.keep_robots("https://a.example/", None, fresh=30)
    assert (await frontier.robots("https://a.example/"))[:3] == ("known", None, 30)
    clock.advance(30)
    assert (await frontier.robots("https://a.example/"))[:3] == ("yours", None, 60)


async def test_why_one_cannot_be_fetched_is_known_too(frontier, clock):
    await frontier.robots("https://a.example/")
    await frontier.keep_robots("https://a.example/", None, fresh=30, reason="dns: no address for a.example: ü")
    assert await frontier.robots("https://a.example/") == ("known", None, 30, "dns: no address for a.example: ü")
    await frontier.keep_robots("https://a.example/", None, fresh=30, reason="x" * 10_000)
    assert len((await frontier.robots("https://a.example/")).reason) == 300
    await frontier.keep_robots("https://a.example/", TEXT, reason="not of a text")
    assert (await frontier.robots("https://a.example/"))[1::2] == (TEXT, "")


async def test_each_origin_has_its_own(frontier):
    origins = ["https://a.example", "http://a.example", "https://a.example:8443", "https://b.a.example"]
    for number, origin in enumerate(origins):
        assert (await frontier.robots(origin)).state == "yours"
        await frontier.keep_robots(origin, b"# %d" % number)
    assert [(await frontier.robots(f"{origin}/x")).text for origin in origins] == [b"# 0", b"# 1", b"# 2", b"# 3"]
    assert (await frontier.robots("HTTPS://A.example:443/x")).text == b"# 0"


@pytest.mark.parametrize("text", [b"", b"\n", bytes(range(256)), "ä\r\n€".encode(), b"Disallow: /x\n" * 5000])
async def test_the_text_comes_back_as_it_was(frontier, text):
    await frontier.keep_robots("https://a.example/", text)
    assert (await frontier.robots("https://a.example/")).text == text


async def test_of_a_text_that_is_too_long_the_lines_up_to_the_limit_are_kept(frontier):
    line = b"Disallow: /%07d\n"
    text = b"".join(line % number for number in range(100_000))
    await frontier.keep_robots("https://a.example/", text)
    kept = (await frontier.robots("https://a.example/")).text
    assert kept == text[: MAX_BYTES - MAX_BYTES % 19]


async def test_the_delay_it_asks_for_becomes_the_hosts(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=1))
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim()
    await frontier.keep_robots(lease.url, TEXT, crawl_delay=5)
    await frontier.release(lease)
    [state] = await frontier.admin.hosts("a.example")
    assert (state.delay, state.crawl_delay, state.opens_in) == (5, 5, 5)
    await frontier.keep_robots(lease.url, TEXT)
    [state] = await frontier.admin.hosts("a.example")
    assert (state.delay, state.crawl_delay, state.opens_in) == (1, None, 1)


async def test_it_costs_no_page_and_no_attempt(open_crawl):
    frontier = await open_crawl(budget=Budget(pages=1))
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.robots(lease.url)
    await frontier.keep_robots(lease.url, TEXT)
    await frontier.release(lease)
    [lease] = await frontier.claim()
    assert lease.attempt == 1
    await frontier.complete(lease)
    stats = await frontier.admin.stats()
    assert (stats.done, stats.accepted) == (1, 1)
    assert await frontier.finished()


async def test_whoever_was_to_fetch_it_and_lost_its_lease_holds_nobody_up(frontier, clock):
    await frontier.enqueue(["https://a.example/1", "https://a.example/2"])
    [lease] = await frontier.claim()
    assert (await frontier.robots(lease.url, lease=lease)).state == "yours"
    clock.advance(9)
    await frontier.extend([lease])
    clock.advance(9)
    assert (await frontier.robots(lease.url)).state == "fetching"
    clock.advance(1)  # long before the lock ends
    [again] = await frontier.claim()
    assert again.url == lease.url
    assert (await frontier.robots(again.url, lease=again)).state == "yours"
    await frontier.keep_robots(again.url, TEXT)
    assert (await frontier.robots(again.url)).state == "known"


async def test_a_page_of_another_host_is_not_what_it_is_fetched_with(frontier):
    await frontier.enqueue("https://a.example/1")
    [lease] = await frontier.claim()
    with pytest.raises(ConfigError, match=r"b\.example"):
        await frontier.robots("https://b.example/", lease=lease)


async def test_what_somebody_was_to_fetch_can_be_given_back(frontier):
    assert (await frontier.robots("https://a.example/")).state == "yours"
    assert (await frontier.robots("https://a.example/")).state == "fetching"
    await frontier.keep_robots("https://a.example/", None, fresh=0)
    with pytest.raises(ConfigError):
        await frontier.robots("https://a.example/", lock=0)
    assert (await frontier.robots("https://a.example/")).state == "yours"


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e18, "long", None])
async def test_times_that_mean_nothing_are_refused(frontier, seconds):
    with pytest.raises(ConfigError):
        await frontier.robots("https://a.example/", lock=seconds)
    with pytest.raises(ConfigError):
        await frontier.keep_robots("https://a.example/", TEXT, fresh=seconds)
    assert (await frontier.robots("https://a.example/")).state == "yours"


@pytest.mark.parametrize("url", ["a.example", "ftp://a.example/", "", None])
async def test_it_belongs_to_a_url(frontier, url):
    with pytest.raises(InvalidUrl):
        await frontier.robots(url)
    with pytest.raises(InvalidUrl):
        await frontier.keep_robots(url, TEXT)


async def test_many_shards_keep_it_with_their_hosts(open_crawl):
    frontier = await open_crawl(shards=4)
    for number in range(20):
        await frontier.keep_robots(f"https://h{number}.example/", b"# %d" % number, crawl_delay=number)
    for number in range(20):
        assert (await frontier.robots(f"https://h{number}.example/x")).text == b"# %d" % number
    assert [state.crawl_delay for state in await frontier.admin.hosts("h3.example", "h19.example")] == [3, 19]


async def test_the_first_page_comes_a_crawl_delay_after_robots_txt(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=0.2))
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim()
    clock.advance(0.4)  # robots.txt was slow, and the pace with which it was claimed is not spent any more
    await frontier.keep_robots(page(1).url, TEXT, crawl_delay=5)
    await frontier.release(lease)
    clock.advance(4.9)
    assert await frontier.claim() == []
    clock.advance(0.1)
    assert len(await frontier.claim()) == 1


async def test_a_crawl_delay_that_is_known_already_delays_nothing(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=0.2))
    await frontier.admin.set_host("a.example", crawl_delay=5)
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim()
    clock.advance(4)
    await frontier.keep_robots(page(1).url, TEXT, crawl_delay=5)
    await frontier.release(lease)
    clock.advance(1)
    assert len(await frontier.claim()) == 1


async def test_a_delay_that_came_from_elsewhere_is_not_forgotten_with_a_fetch_that_failed(frontier, clock):
    """As Scrapy's middleware sets it, which keeps no robots.txt in the frontier."""
    await frontier.robots("https://a.example/", lock=1)
    await frontier.admin.set_host("a.example", crawl_delay=3)
    clock.advance(5)
    await frontier.keep_robots("https://b.example/", b"")  # at which the frontier looks for what is out of date
    assert (await frontier.admin.hosts("a.example"))[0].crawl_delay == 3
