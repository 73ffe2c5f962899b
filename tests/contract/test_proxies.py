"""Workers share what they know of their proxies, so that all of them together try a dead one a few times only."""

from __future__ import annotations

import pytest

from silkline.core.proxy_health import ProxyCounts, ProxyReport
from silkline.errors import ConfigError
from silkline.frontier.verbs.proxies import MOST_PROXIES
from silkline.ops.crawl_metrics import of_proxies
from silkline.ops.prometheus import render

A, B = "http://a.example:8080", "socks5://b.example:1080#2"
RESTS = 2.0, 300.0


@pytest.fixture
def share(frontier):
    """Reports of a worker; returns what it learns, by proxy."""
    known = {}

    async def share_(worker, *reports):
        reply = await frontier.internal.share_proxies(worker, known.get(worker, 0), RESTS, reports)
        known[worker] = reply.change
        return {one.proxy: (one.word, one.seconds) for one in reply.news}

    return share_


def failed(proxy=A, why="no connection: refused"):
    return ProxyReport(proxy, "failed", why)


async def test_one_worker_checks_a_proxy_and_all_learn_how_it_does(share):
    assert await share("one", ProxyReport(A, "check"), ProxyReport(B, "check")) == {A: ("check", 0), B: ("check", 0)}
    assert await share("two", ProxyReport(A, "check")) == {A: ("wait", 30)}
    assert await share("one", failed(), ProxyReport(B, "passed")) == {A: ("resting", 2), B: ("ready", 0)}
    assert await share("two") == {A: ("resting", 2), B: ("ready", 0)}
    assert await share("two") == {}
    assert await share("two", ProxyReport(B, "check")) == {B: ("ready", 0)}


async def test_a_dead_proxy_is_checked_four_times_in_a_minute_by_all_workers_and_then_hardly_ever(share, clock):
    checks = []
    for second in range(1000):
        for worker in ("one", "two", "three"):
            if (await share(worker, ProxyReport(A, "check")))[A][0] == "check":
                checks.append(second)
                await share(worker, failed())
        clock.advance(1)
    assert checks == [0, 2, 10, 42, 170, 470, 770]


async def test_a_check_that_is_never_reported_is_given_to_another_worker(share, clock):
    assert await share("one", ProxyReport(A, "check")) == {A: ("check", 0)}
    clock.advance(29)
    assert await share("two", ProxyReport(A, "check")) == {A: ("wait", 1)}
    clock.advance(1)
    assert await share("two", ProxyReport(A, "check")) == {A: ("check", 0)}
    assert await share("one", ProxyReport(A, "check")) == {A: ("wait", 30)}


async def test_a_proxy_returns_for_all_when_it_works_for_one(share, clock):
    await share("one", failed())
    clock.advance(2)
    assert await share("two", ProxyReport(A, "check")) == {A: ("check", 0)}
    assert await share("two", ProxyReport(A, "passed")) == {A: ("ready", 0)}
    assert await share("one") == {A: ("ready", 0)}
    assert await share("one", failed()) == {}, "at one worker alone, while it works for another one"
    clock.advance(15)
    assert await share("one", failed()) == {A: ("resting", 8)}, "it has fetched no page since the first failure"
    assert await share("two", ProxyReport(A, "worked")) == {A: ("ready", 0)}
    clock.advance(15)
    assert await share("one", failed()) == {A: ("resting", 2)}


async def test_a_failure_at_one_worker_does_not_stop_the_others_but_at_two_it_does(share):
    await share("one", ProxyReport(A, "worked"))
    for _ in range(3):
        assert await share("two", failed()) in ({}, {A: ("ready", 0)})
    assert await share("one") == {}
    assert await share("three", failed()) == {A: ("resting", 2)}
    assert await share("one") == {A: ("resting", 2)}


async def test_its_own_failure_stops_a_worker_for_which_it_worked(share):
    await share("one", ProxyReport(A, "worked", counts=ProxyCounts(1, 0, 0, 10)))
    assert await share("one", failed()) == {A: ("resting", 2)}


async def test_after_minutes_without_pages_a_proxy_is_checked_again(share, clock):
    await share("one", ProxyReport(A, "passed"))
    clock.advance(299)
    assert await share("two", ProxyReport(A, "check")) == {A: ("ready", 0)}
    clock.advance(1)
    assert await share("two", ProxyReport(A, "check")) == {A: ("check", 0)}


async def test_operators_see_the_health_of_proxies(share, frontier, clock):
    assert await frontier.admin.proxies() == []
    await share("one", ProxyReport(B, "worked", counts=ProxyCounts(6, 2, 1, 1200)))
    clock.advance(1)
    await share("two", failed(why="no\n connection " + "x" * 500), ProxyReport(B, counts=ProxyCounts(2, 0, 1, 400)))
    a, b = await frontier.admin.proxies()
    assert (a.proxy, a.state, a.rests_for, a.failures, a.success, a.latency) == (A, "resting", 2, 1, None, None)
    assert a.why.startswith("no connection xxx")
    assert len(a.why) == 200
    assert (b.proxy, b.state, b.rests_for, b.failures, b.why) == (B, "ready", 0, 0, "")
    assert (b.fetched, b.failed, b.blocked, b.success, b.latency) == (8, 2, 2, 0.8, 0.2)
    assert b.updated == clock.now / 1000
    metrics = render(of_proxies(frontier.crawl, [a, b]))
    for state, number in (("resting", 1), ("ready", 1), ("unknown", 0)):
        assert f'silkline_proxies{{crawl="{frontier.crawl}",state="{state}"}} {number}' in metrics
    await share("one", ProxyReport(B, counts=ProxyCounts(1000, 0, 0, 0)))
    assert [(one.fetched, one.failed) for one in await frontier.admin.proxies() if one.proxy == B] == [(504, 1)]
    assert len(await frontier.admin.proxies(limit=1)) == 1
    for wrong in (0, MOST_PROXIES + 1, "many"):
        with pytest.raises(ConfigError, match="limit must be between 1 and"):
            await frontier.admin.proxies(limit=wrong)


async def test_a_host_that_blocks_is_moved_to_a_later_tier_for_an_hour(share, clock):
    def moved(tier, host="shop.example:8080"):
        return ProxyReport(host, "tier", str(tier))

    assert await share("one", moved(1)) == {"shop.example:8080": ("tier", 3600)}
    clock.advance(600)
    assert await share("two") == {"shop.example:8080": ("tier", 3000)}
    assert await share("two", moved(1)) == {}, "it is there already"
    assert await share("two", moved(2), failed()) == {"shop.example:8080": ("tier", 3600), A: ("resting", 2)}
    clock.advance(1)
    assert (await share("one", moved(1)))["shop.example:8080"] == ("tier", 3599)
    clock.advance(3599)
    assert "shop.example:8080" not in await share("three")
    assert await share("one", moved(1)) == {"shop.example:8080": ("tier", 3600)}


async def test_many_proxies_are_reported_in_one_call_of_the_worker(share, frontier):
    names = [f"http://{number}.example:80" for number in range(700)]
    learnt = await share("one", *(failed(name) for name in names))
    assert learnt == dict.fromkeys(names, ("resting", 2))
    learnt = {}
    while news := await share("two"):
        learnt |= news
    assert learnt == dict.fromkeys(names, ("resting", 2))
    assert len(await frontier.admin.proxies(limit=1000)) == 700
