"""One robots.txt for the whole fleet: who fetches it, who waits, and what becomes of the page."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from silkline import Politeness
from silkline.core.robots import Robots
from silkline.errors import HostUnreachable
from silkline.testing import MemoryFrontier
from silkline.worker.robots import (
    LARGE,
    Allowed,
    Denied,
    FetchFirst,
    RobotsCache,
    RobotsChecker,
    RobotsResponse,
    Unreachable,
    Wait,
)

URL = "https://a.example/private/x"
TEXT = b"User-agent: silkline\nDisallow: /private\nCrawl-delay: 7\nSitemap: https://a.example/s.xml\n"


class Site:
    """Answers URLs, and notes which were asked for."""

    def __init__(self, **answers):
        self.answers = {path.replace("_", "."): answer for path, answer in answers.items()}
        self.asked = []

    async def get(self, url):
        self.asked.append(url)
        answer = self.answers.get(url.rpartition("/")[2], RobotsResponse(404))
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(params=["Frontier", "MemoryFrontier"])
async def fleet(request, clock, crawl, open_frontier):
    """Makes keepers, each of another process, of one crawl."""
    address = f"memory:{crawl}"
    kept_open = []

    async def member(**options):
        if request.param == "Frontier":
            frontier = await open_frontier(politeness=Politeness(delay=1))
        else:
            frontier = await MemoryFrontier.open(address, crawl=crawl, clock=clock, politeness=Politeness(delay=1))
        kept_open.append(frontier)
        keeper = RobotsChecker(frontier, "Silkline/0.1 (+https://x.example)", clock=lambda: clock.seconds, **options)
        return frontier, keeper

    return member


async def test_one_fetches_it_and_all_know_it(fleet):
    (frontier, first), (_, second), site = await fleet(), await fleet(), Site(robots_txt=RobotsResponse(200, TEXT))
    order = await first.verdict(URL)
    assert order == FetchFirst("https://a.example", None)
    assert await second.verdict(URL) == Wait(1)
    await first.fetch(order, site.get)
    for keeper in (first, second):
        assert isinstance(await keeper.verdict(URL), Denied)
        assert await keeper.verdict("https://a.example/public") == Allowed()
        assert keeper.sitemaps(URL) == ("https://a.example/s.xml",)
    assert site.asked == ["https://a.example/robots.txt"]
    [state] = await frontier.admin.hosts("a.example")
    assert (state.delay, state.crawl_delay) == (7, 7)


async def test_however_many_ask_at_once_one_fetches(fleet):
    members = [(await fleet())[1] for _ in range(5)]
    verdicts = await asyncio.gather(*(keeper.verdict(URL) for keeper in members * 4))
    assert sum(isinstance(verdict, FetchFirst) for verdict in verdicts) == 1
    assert sum(verdict == Wait(1) for verdict in verdicts) == 19


async def test_a_fetcher_that_dies_is_succeeded(fleet, clock):
    (_, first), (_, second) = await fleet(), await fleet()
    await first.verdict(URL)
    clock.advance(59.5)
    assert await second.verdict(URL) == Wait(0.5)
    clock.advance(0.5)
    assert isinstance(await second.verdict(URL), FetchFirst)


async def test_who_gives_it_back_leaves_it_to_the_next_with_the_older_copy(fleet, clock):
    site = Site(robots_txt=RobotsResponse(200, TEXT))
    (frontier, first), (_, second) = await fleet(), await fleet()
    await first.give_back(await first.verdict(URL))
    todo = await second.verdict(URL)
    assert isinstance(todo, FetchFirst)
    await second.fetch(todo, site.get)
    clock.advance(86_401)
    await first.give_back(await first.verdict(URL))
    todo = await second.verdict(URL)
    assert isinstance(todo, FetchFirst)
    assert todo.older == TEXT
    assert isinstance(await first.verdict(URL), Denied)  # the older copy holds meanwhile
    (state,) = await frontier.admin.hosts("a.example")
    assert state.crawl_delay == 7


async def test_who_is_stopped_on_the_way_leaves_it_to_the_next(fleet):
    (_, first), (_, second) = await fleet(), await fleet()
    begun = asyncio.Event()

    async def never(url):
        begun.set()
        await asyncio.Event().wait()

    fetching = asyncio.create_task(first.fetch(await first.verdict(URL), never))
    await begun.wait()
    assert isinstance(await second.verdict(URL), Wait)
    fetching.cancel()
    await asyncio.wait([fetching])
    assert fetching.cancelled()
    assert isinstance(await second.verdict(URL), FetchFirst)


async def test_a_page_of_a_known_origin_is_decided_without_the_frontier(fleet):
    frontier, keeper = await fleet()
    await keeper.fetch(await keeper.verdict(URL), Site(robots_txt=RobotsResponse(200, TEXT)).get)
    await frontier.admin.remove()
    assert isinstance(await keeper.verdict(URL), Denied)


async def test_redirects_are_followed_through_the_workers_hands(fleet):
    _, keeper = await fleet()
    site = Site(robots_txt=RobotsResponse(301, b"", "https://b.example/there"), there=RobotsResponse(200, TEXT))
    await keeper.fetch(await keeper.verdict(URL), site.get)
    assert site.asked == ["https://a.example/robots.txt", "https://b.example/there"]
    assert isinstance(await keeper.verdict(URL), Denied)


async def test_a_redirect_loop_ends_and_allows(fleet):
    _, keeper = await fleet()
    site = Site(robots_txt=RobotsResponse(302, b"", "/robots.txt"))
    await keeper.fetch(await keeper.verdict(URL), site.get)
    assert len(site.asked) == 6
    assert await keeper.verdict(URL) == Allowed()


@pytest.mark.parametrize("trouble", [RobotsResponse(503), RobotsResponse(429), HostUnreachable("no address", "dns")])
async def test_an_unreachable_one_lets_nobody_in_and_is_sought_again_later_and_later(fleet, clock, trouble):
    (_, keeper), (_, other), site = await fleet(), await fleet(), Site(robots_txt=trouble)
    for attempt, seconds in ((1, 30), (2, 60), (3, 120)):
        with pytest.raises(HostUnreachable) if isinstance(trouble, Exception) else nullcontext():
            await keeper.fetch(await keeper.verdict(URL), site.get, attempt=attempt)
        for one in (keeper, other):
            verdict = await one.verdict(URL)
            assert isinstance(verdict, Unreachable)
            assert verdict.after == pytest.approx(seconds)
        clock.advance(seconds)
    site.answers = {"robots.txt": RobotsResponse(200, b"")}
    await other.fetch(await other.verdict(URL), site.get)
    assert await keeper.verdict(URL) == Allowed()


async def test_who_gave_no_answer_is_asked_again_when_a_page_of_it_would_be(fleet):
    (_, keeper), site = await fleet(), Site(robots_txt=HostUnreachable("no address", "dns"))
    with pytest.raises(HostUnreachable):
        await keeper.fetch(await keeper.verdict(URL), site.get, again=lambda error: 5.0 if error.kind == "dns" else 0.0)
    assert (await keeper.verdict(URL)).after == pytest.approx(5)


async def test_a_fault_of_ours_does_not_keep_the_fleet_waiting(fleet):
    """Whatever is raised, the fleet is told that there is no robots.txt for now, and not left to wait for us."""
    (_, keeper), (_, other), site = await fleet(), await fleet(), Site(robots_txt=ZeroDivisionError("a fault"))
    with pytest.raises(ZeroDivisionError):
        await keeper.fetch(await keeper.verdict(URL), site.get)
    assert isinstance(await other.verdict(URL), Unreachable)


async def test_an_older_copy_holds_while_a_newer_one_is_fetched_and_if_there_is_none(fleet, clock):
    (frontier, first), (_, second), site = await fleet(), await fleet(), Site(robots_txt=RobotsResponse(200, TEXT))
    await first.fetch(await first.verdict(URL), site.get)
    clock.advance(86_400)
    order = await first.verdict(URL)
    assert order == FetchFirst("https://a.example", TEXT)
    assert isinstance(await second.verdict(URL), Denied)
    assert await second.verdict("https://a.example/public") == Allowed()
    site.answers = {"robots.txt": RobotsResponse(500)}
    await first.fetch(order, site.get)
    assert await first.verdict("https://a.example/public") == Allowed()
    assert (await frontier.admin.hosts("a.example"))[0].crawl_delay == 7
    clock.advance(30)
    assert isinstance(await first.verdict(URL), FetchFirst)


async def test_a_large_one_is_read_too(fleet):
    _, keeper = await fleet()
    text = TEXT + b"Disallow: /more\n" * LARGE
    await keeper.fetch(await keeper.verdict(URL), Site(robots_txt=RobotsResponse(200, text)).get)
    assert isinstance(await keeper.verdict(URL), Denied)
    assert await keeper.verdict("https://a.example/public") == Allowed()


async def test_a_longer_crawl_delay_may_be_let_in(fleet):
    frontier, keeper = await fleet(max_crawl_delay=5)
    await keeper.fetch(await keeper.verdict(URL), Site(robots_txt=RobotsResponse(200, TEXT)).get)
    assert (await frontier.admin.hosts("a.example"))[0].crawl_delay == 5


async def test_each_origin_is_asked_for_its_own(fleet):
    _, keeper = await fleet()
    for origin in ("https://a.example", "http://a.example", "https://a.example:8443", "https://b.example"):
        assert await keeper.verdict(f"{origin}/x") == FetchFirst(origin, None)


@pytest.mark.parametrize(
    "url", ["https://a.examplex", "https://a.example@b.example/", "https://b.example?https://a.example/"]
)
async def test_an_origin_is_not_mistaken_for_one_that_looks_like_it(fleet, url):
    _, keeper = await fleet()
    await keeper.fetch(await keeper.verdict(URL), Site().get)
    assert isinstance(await keeper.verdict(url), FetchFirst)


@pytest.mark.parametrize(
    "url", ["https://A.example/", "https://a.example", "https://u:p@a.example:443/x", "https://a.example?q"]
)
async def test_an_origin_is_known_however_it_is_written(fleet, url):
    _, keeper = await fleet()
    await keeper.fetch(await keeper.verdict(URL), Site().get)
    assert await keeper.verdict(url) == Allowed()


# ── the cache of a process ───────────────────────────────────────────────────────────────────────────────────────────
def test_the_cache_keeps_what_was_used_last():
    cache = RobotsCache(most=2)
    cache.put("a", Robots())
    cache.put("b", Robots())
    assert cache.get("a", 0)
    cache.put("c", Robots())
    assert [bool(cache.get(name, 0)) for name in "abc"] == [True, False, True]


def test_the_cache_is_bounded_by_rules_too_but_keeps_the_last_in_any_case():
    cache = RobotsCache(heaviest=100)
    for name in "abcdefgh":
        cache.put(name, Robots([("disallow", f"/{number}") for number in range(30)]))
    assert len(cache) == 3
    cache.put("i", Robots([("disallow", f"/{number}") for number in range(300)]))
    assert len(cache) == 1
    cache.put("j", Robots())
    assert len(cache) == 1


def test_the_cache_forgets_what_has_expired():
    cache = RobotsCache()
    cache.put("a", Robots(expires=5))
    assert cache.get("a", 4.9)
    assert cache.get("a", 5) is None
    assert len(cache) == 0


async def test_an_origin_that_takes_too_long_to_match_twice_is_left_alone_until_it_is_fetched_again(fleet, clock):
    """Should the estimate fail, the clock decides."""
    ticks = iter([0.0, 0.06, 1.0, 1.01, 2.0, 2.06, *range(3, 100)])
    (_, keeper), site = await fleet(), Site(robots_txt=RobotsResponse(200, TEXT))
    keeper.timer = lambda: next(ticks)
    await keeper.fetch(await keeper.verdict(URL), site.get)
    for _ in range(3):
        assert await keeper.verdict("https://a.example/public") == Allowed()
    denied = await keeper.verdict("https://a.example/public")
    assert isinstance(denied, Denied)
    assert "robots.txt" in denied.reason
    clock.advance(86_401)
    assert isinstance(await keeper.verdict("https://a.example/public"), FetchFirst)
