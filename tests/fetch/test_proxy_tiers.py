"""Proxies in tiers: the later ones are used only for hosts that block the earlier ones."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Request
from silkline.errors import ConfigError, ProxyFailure
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.proxies import Proxies
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import LocalSite, MemoryFrontier, SiteResponse
from tests.proxies import ProxyServer

LIMITS = Limits(timeout=60, connect_timeout=30)


@pytest.fixture
async def cheap():
    async with ProxyServer() as server:
        yield server


@pytest.fixture
async def costly():
    async with ProxyServer() as server:
        yield server


@pytest.fixture
async def site(cheap):
    """Hosts of which one refuses the cheap proxy, which adds a header."""
    cheap.adds = "Via: 1.1 cheap"

    def blocking(visit):
        return SiteResponse("blocked", 403) if "via" in visit.headers and visit.host.startswith("shop.") else "a page"

    async with LocalSite({"/forbidden": 403, "/captcha": captcha, "*": blocking}) as served:
        yield served


def captcha(visit):
    return "prove that you are human" if "via" in visit.headers else "a page"


@pytest.fixture
async def through(cheap, costly):
    opened = []

    def open_(**options):
        proxies = Proxies(tiers=[cheap.url, [costly.url]], **options)
        opened.append(WreqFetcher(LIMITS, guard=Guard(allow_private=True), proxy=proxies))
        return opened[-1]

    yield open_
    for fetcher in opened:
        await fetcher.close()


async def get(fetcher, site, host, path="/"):
    return await fetcher.fetch(Request(site.at(path, host)), user_agent="test")


async def statuses(fetcher, site, host, path="/", tries=20):
    """The outcomes of fetching a page until there is a response."""
    found = []
    for _ in range(tries):
        try:
            found.append((await get(fetcher, site, host, path)).status)
            return found
        except ProxyFailure as failure:
            found.append(str(failure))
    raise AssertionError(found)


async def test_a_host_that_blocks_moves_to_the_next_tier_and_others_do_not(site, cheap, costly, through):
    fetcher = through()
    blocked = f"shop.test blocks the proxy {cheap.url} (status 403)"
    assert await statuses(fetcher, site, "shop.test") == [blocked] * 3 + [200]
    assert await statuses(fetcher, site, "shop.test", "/more") == [200]
    assert await statuses(fetcher, site, "other.test") == [200]
    port = site.port
    assert cheap.targets == [f"shop.test:{port}"] * 3 + [f"other.test:{port}"]
    assert costly.targets == [f"shop.test:{port}"] * 2


async def test_a_page_that_is_forbidden_among_others_does_not_move_its_host(site, costly, through):
    fetcher = through()
    for number in range(12):
        assert await statuses(fetcher, site, "other.test", f"/{number}") == [200]
        if number < 2:
            with pytest.raises(ProxyFailure, match="blocks the proxy"):
                await get(fetcher, site, "other.test", "/forbidden")
        else:
            assert (await statuses(fetcher, site, "other.test", "/forbidden"))[-1] == 403
            break
    assert costly.targets == []


async def test_after_an_hour_a_host_begins_at_the_first_tier(site, cheap, costly, through):
    fetcher = through()
    now = [0.0]
    fetcher.proxies._clock = lambda: now[0]
    await statuses(fetcher, site, "shop.test")
    cheap.adds = ""
    now[0] = 3599.0
    await statuses(fetcher, site, "shop.test")
    assert (len(cheap.targets), len(costly.targets)) == (3, 2)
    now[0] = 3600.0
    assert await statuses(fetcher, site, "shop.test") == [200]
    assert (len(cheap.targets), len(costly.targets)) == (4, 2)


async def test_what_all_tiers_get_is_the_response_of_the_host(site, costly, through):
    fetcher = through()
    assert (await statuses(fetcher, site, "other.test", "/forbidden"))[-1] == 403
    assert len(costly.targets) == 1


async def test_a_function_may_say_what_a_block_is(site, costly, through):
    def is_captcha(response):
        return b"human" in response.body

    fetcher = through(blocked=is_captcha)
    assert len(await statuses(fetcher, site, "other.test", "/captcha")) == 4
    assert len(costly.targets) == 1

    def broken(response):
        raise KeyError("x")

    assert await statuses(through(blocked=broken), site, "other.test", "/forbidden") == [403]


async def test_other_workers_learn_of_a_host_that_blocks(site, cheap, through):
    async with await MemoryFrontier.open(crawl="books") as frontier:
        first, second = through(), through()
        sharing = [
            asyncio.create_task(one.proxies.share_health(frontier.internal.share_proxies)) for one in (first, second)
        ]
        await statuses(first, site, "shop.test")
        await first.proxies.report_rest()
        await second.proxies.report_rest()
        assert await statuses(second, site, "shop.test") == [200]
        assert cheap.targets == [f"shop.test:{site.port}"] * 3
        names = [proxy.proxy for proxy in await frontier.admin.proxies()]
        assert sorted(name.partition(" ")[2] for name in names) == ["", "tier 2"]
        for task in sharing:
            task.cancel()
        await asyncio.gather(*sharing, return_exceptions=True)


async def test_a_dead_first_tier_does_not_use_the_next_one(site, cheap, costly, through):
    fetcher = through()
    await cheap.die()
    for _ in range(5):
        with pytest.raises(ProxyFailure):
            await get(fetcher, site, "other.test")
    assert (fetcher.proxies.room, costly.accepted) == (0, 0)
    assert "does not work" in fetcher.proxies.trouble


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tiers": ["http://a.example:1"]}, "tiers must be a list of 2 to 9"),
        ({"tiers": "http://a.example:1"}, "tiers must be a list of 2 to 9"),
        (
            {"source": "http://a.example:1", "tiers": ["http://b.example:1", "http://c.example:1"]},
            "either a source or tiers",
        ),
        (
            {"tiers": ["http://a.example:1", Proxies(tiers=["http://b.example:1", "http://c.example:1"])]},
            "cannot have tiers",
        ),
        ({"tiers": ["http://a.example:1", "http://b.example:1"], "blocked": [200]}, "statuses from 400 to 599"),
        ({}, "the list of proxies is empty"),
    ],
)
def test_wrong_tiers_are_refused(arguments, words):
    with pytest.raises(ConfigError, match=words):
        Proxies(**arguments)


def test_tiers_show_no_passwords():
    found = Proxies(tiers=["http://us3r:s3cr3t@a.example:1", ["http://us3r:s3cr3t@b.example:1", "http://c.example:1"]])
    assert (
        repr(found) == "Proxies(tiers=[Proxies(http://a.example:1), Proxies(http://b.example:1, http://c.example:1)])"
    )
    assert len(found.listed) == 3
