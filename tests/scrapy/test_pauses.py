"""A crawl that is stopped goes on where it stopped; one whose server is away waits, and does nothing else worse."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from silkline import SyncFrontier
from silkline.testing.site import Shop, SiteProcess
from tests.scrapy.conftest import both_versions
from tests.scrapy.processes import lines, until

SHOP = Shop(pages=120, trouble=False)
GENTLE = {"CONCURRENT_REQUESTS": 4, "SCHEDULER_PERSIST": True}


@both_versions
def test_a_crawl_is_stopped_twice_and_continues_exactly_where_it_stopped(scrapy, out, valkey, crawl, version):
    with SiteProcess(SHOP, latency=0.02) as site:

        def start(**settings):
            return scrapy("crawl", "chain", "-a", f"site={site.url}", version=version, settings=GENTLE | settings)

        first = start(CLOSESPIDER_ITEMCOUNT=20)
        assert first.wait() == 0
        assert first.stats["finish_reason"] == "closespider_itemcount"
        with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
            stats = frontier.admin.stats()
            assert stats.leased == 0  # what was claimed ahead was given back
            assert stats.done == len(lines(out)) < SHOP.pages

        second = start()
        second.said("Resuming crawl")
        until(lambda: len(lines(out)) > 45)
        second.interrupt()
        assert second.wait() == 0, second.log
        assert second.stats["finish_reason"] == "shutdown"
        assert len(lines(out)) < SHOP.pages

        third = start()
        assert third.wait() == 0, third.log
        assert third.stats["finish_reason"] == "finished"
        visits = Counter(visit.path for visit in site.visits)
        reached = Counter(item["url"].removeprefix(site.url.rstrip("/")) for item in lines(out))
    assert reached == visits == Counter(SHOP.paths())


def beats(ticks, since):
    """When the reactor had time to tell; it does so every 20 ms, but for what keeps it."""
    return [beat for beat in map(float, ticks.read_text().splitlines()[:-1]) if beat > since]


@pytest.mark.parametrize("reactor", [None, "twisted.internet.epollreactor.EPollReactor"])
def test_a_server_that_is_frozen_and_then_restarted_costs_time_and_nothing_else(
    scrapy, out, own_server, tmp_path, crawl, reactor
):
    server = own_server(appendonly="yes", appendfsync="always")
    ticks = tmp_path / "ticks"
    settings = GENTLE | {"TWISTED_REACTOR": reactor, "SILKLINE_LEASE": 30}
    with SiteProcess(SHOP, latency=0.02) as site:
        run = scrapy("crawl", "ticker", "-a", f"site={site.url}", url=server.url, settings=settings, TICKS=ticks)
        until(lambda: len(lines(out)) > 20)
        server.freeze()
        frozen = time.monotonic()
        until(lambda: len(beats(ticks, since=frozen)) > 100)  # the reactor does not wait for the server
        server.thaw()
        before = len(lines(out))
        until(lambda: len(lines(out)) > before + 10)
        server.kill()
        run.said("the server is unreachable")
        server.start()
        run.said("the server is reachable again")
        assert run.wait() == 0, run.log
        reached = Counter(item["url"] for item in lines(out))
    assert len(reached) == SHOP.pages
    assert sum(reached.values()) == SHOP.pages
    assert "ERROR" not in run.log
