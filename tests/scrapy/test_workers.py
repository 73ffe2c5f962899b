"""Several workers on one crawl: they share it, wait for each other, keep one pace, and lose nothing when one dies."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from silkline import Politeness, SyncFrontier
from silkline.core.url import parse
from silkline.errors import UnknownCrawl
from silkline.testing.site import LocalSite, Shop, SiteProcess, SiteResponse, healing
from tests.scrapy.processes import lines, until

QUICK = {"CONCURRENT_REQUESTS": 8, "SCHEDULER_PERSIST": False}


def test_three_workers_share_a_crawl_and_the_last_one_clears_it(scrapy, out, valkey, crawl):
    shop = Shop(pages=150, trouble=False)
    with SiteProcess(shop, latency=0.25) as site:
        runs = [scrapy("crawl", "chain", "-a", f"site={site.url}", settings=QUICK) for _ in range(3)]
        wait_for_all(valkey.url, crawl, 3)
        assert [run.wait() for run in runs] == [0, 0, 0]
        found = lines(out)
        assert len(site.visits) == len(found) == len({item["url"] for item in found}) == shop.pages
        assert site.visits.greatest_concurrency() <= 8  # CONCURRENT_REQUESTS_PER_DOMAIN of all together
    shares = Counter(item["pid"] for item in found)
    assert len(shares) == 3
    assert [run.stats["finish_reason"] for run in runs] == ["finished"] * 3
    assert all("ERROR" not in run.log for run in runs)
    with pytest.raises(UnknownCrawl):
        SyncFrontier.open(valkey.url, crawl=crawl, create=False)


def test_a_worker_logs_once_what_another_one_means_for_the_pace(scrapy, valkey, crawl):
    with LocalSite({"/*": "<h1>a page</h1>"}) as site:
        command = ("crawl", "chain", "-a", f"site={site.url}")
        with SyncFrontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0, concurrency=8)) as frontier:
            frontier.admin.pause()
            first = scrapy(*command, settings=QUICK)
            until(frontier.admin.workers)
            second = scrapy(*command, settings=QUICK)
            first.said("another worker has joined the crawl")
            frontier.admin.resume()
        assert [first.wait(), second.wait()] == [0, 0]
    assert first.log.count("another worker has joined") == 1
    assert "All workers together make at most 8 requests at once" in first.log.partition("has joined the crawl")[2]
    assert "another worker has joined" not in second.log  # its first line names the other one
    assert "1 other worker." in second.log


def wait_for_all(url, crawl, workers):
    """Hold a crawl up, as soon as its first worker has made it, until so many have come."""

    def opened():
        try:
            return SyncFrontier.open(url, crawl=crawl, create=False)
        except UnknownCrawl:
            return None

    with until(opened) as frontier:
        frontier.admin.pause()
        until(lambda: len(frontier.admin.workers()) == workers)
        frontier.admin.resume()


def test_a_delay_holds_for_two_workers_together_and_none_closes_before_the_other(scrapy, out):
    pages = {f"/{number}": f"<a href=/{number + 1}>next</a>" for number in range(11)}  # one page at a time
    wide = {"/wide": "".join(f"<a href=/w{number}>w</a>" for number in range(10)), "/w*": "<h1>w</h1>"}
    settings = QUICK | {"DOWNLOAD_DELAY": 0.2}
    with LocalSite(pages | wide | {"/11": "<h1>the end</h1>"}) as site:
        runs = [scrapy("crawl", "chain", "-a", f"site={site.at(path)}", settings=settings) for path in ("/0", "/wide")]
        assert [run.wait() for run in runs] == [0, 0]
        times = sorted(visit.at for visit in site.visits)
        assert len(times) == len(lines(out)) == 23
        assert times[-1] - times[0] >= 22 * 0.2 * 0.95  # each for itself would take half of it
        last = datetime.now(UTC) - timedelta(seconds=time.monotonic() - times[-1])
        assert all(run.stats["finish_time"] > last for run in runs)  # though only one of them had the last pages


def test_a_delay_holds_though_one_of_two_workers_is_too_busy_to_begin_in_time(scrapy, out):
    """What it has claimed meanwhile is not begun late, when the other one has been promised the site, but given back."""
    with LocalSite({"/*": "<h1>a page</h1>"}) as site:
        command, settings = ("crawl", "busy", "-a", f"site={site.url}"), {"DOWNLOAD_DELAY": 0.4}
        runs = [scrapy(*command, "-a", f"seconds={seconds}", settings=settings) for seconds in (0, 1)]
        assert [run.wait() for run in runs] == [0, 0]
        gaps = site.visits.gaps()
    assert len(gaps) + 1 == len(lines(out)) == 24
    assert min(gaps) >= 0.4 * 0.75


@pytest.mark.parametrize("delay", [0, 0.05])
def test_callbacks_that_take_long_do_not_keep_their_site_waiting(scrapy, out, delay):
    """As with Scrapy itself, the limit per domain is on downloads: a page that has landed leaves its place."""
    with LocalSite({"/*": "<h1>a page</h1>"}) as site:
        run = scrapy("crawl", "patient", "-a", f"site={site.url}", settings={"DOWNLOAD_DELAY": delay})
        assert run.wait() == 0
        assert len(lines(out)) == 4
        assert site.visits.greatest_concurrency() == 1


def test_crawl_delay_and_retry_after_hold_for_two_workers_together(scrapy, out):
    """What one of them is told by the site, both obey."""
    pages = {"/": "".join(f"<a href=/{number}>p</a>" for number in range(10)), "/*": "<h1>a page</h1>"}
    sorry = healing(SiteResponse(status=503, headers={"Retry-After": "2"}), "<h1>well again</h1>")
    robots = SiteResponse("User-agent: *\nCrawl-delay: 0.3\n", headers={"Content-Type": "text/plain"})
    settings = QUICK | {"ROBOTSTXT_OBEY": True, "RETRY_ENABLED": True}
    with LocalSite(pages | {"/5": sorry, "/robots.txt": robots}) as site:
        runs = [scrapy("crawl", "chain", "-a", f"site={site.at('/')}", settings=settings) for _ in range(2)]
        assert [run.wait() for run in runs] == [0, 0]
        visits = sorted((visit for visit in site.visits if visit.path != "/robots.txt"), key=lambda visit: visit.at)
    assert len(visits) == 12  # the start page, ten more, and one of them again
    assert len(lines(out)) == 11
    gaps = [after.at - before.at for before, after in pairwise(visits)]
    between = gaps[1:]  # the first page was claimed before anybody had read robots.txt
    assert min(between) >= 0.3 / 2  # a busy reactor is late once and again, but not faster on the whole
    paced = [gap for gap in between if gap < 1]
    assert sum(paced) >= len(paced) * 0.3 * 0.95
    sorry_at = next(number for number, visit in enumerate(visits) if visit.path == "/5")
    assert visits[sorry_at + 1].at - visits[sorry_at].at >= 2 * 0.95


def test_a_hosts_own_delay_holds_for_two_workers_of_a_crawl_without_one(scrapy, out, crawl, valkey):
    """Where others are crawled as fast as can be, and requests are claimed ahead."""
    pages = {"/": "".join(f"<a href=/{number}>p</a>" for number in range(12)), "/*": "<h1>a page</h1>"}
    with LocalSite(pages) as site:
        pace = Politeness(delay=0, concurrency=8)
        with SyncFrontier.open(valkey.url, crawl=crawl, politeness=pace) as frontier:
            frontier.admin.set_host(parse(site.url).host, delay=0.3)
        runs = [scrapy("crawl", "chain", "-a", f"site={site.at('/')}", settings=QUICK) for _ in range(2)]
        assert [run.wait() for run in runs] == [0, 0]
        gaps = site.visits.gaps()
    assert len(gaps) + 1 == len(lines(out)) == 13
    assert min(gaps) >= 0.3 / 2
    assert sum(gaps) >= len(gaps) * 0.3 * 0.95


@pytest.mark.parametrize("crowd", [0, pytest.param(1, marks=pytest.mark.long)])
def test_nothing_is_lost_when_workers_are_killed_at_random_moments(scrapy, out, crawl, valkey, crowd):
    shop = Shop(pages=220, trouble=False)
    settings = QUICK | {"SCHEDULER_PERSIST": True, "SILKLINE_LEASE": 1, "CONCURRENT_REQUESTS": 4}
    dice, killed = random.Random(), 0
    with SiteProcess(shop, latency=0.02) as site:

        def start():
            return scrapy("crawl", "chain", "-a", f"site={site.url}", settings=settings)

        runs = [start(), start()]
        while killed < 10 and len(lines(out)) < shop.pages:
            time.sleep(dice.uniform(0.0, 0.4))
            place = killed % 2
            until(lambda: "Spider opened" in runs[place].log or not runs[place].running)  # noqa: B023
            if runs[place].running:
                runs[place].kill()
                killed += 1
            runs[place] = start()
        assert [run.wait() for run in runs] == [0, 0], runs[0].log
        with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
            revived = frontier.admin.revive(
                reason="crashed"
            )  # what took three workers down with it is buried, not lost
            if revived:
                assert start().wait() == 0
            stats = frontier.admin.stats()
        reached = Counter(item["url"].removeprefix(site.url.rstrip("/")) for item in lines(out))
        assert set(reached) == set(shop.paths())
        assert (stats.pending, stats.leased, stats.dead) == (0, 0, 0)
        assert sum(reached.values()) <= shop.pages + killed * 8  # at most what was under way comes twice
    assert killed >= 5, "the crawl was over too soon"


def test_a_spider_whose_crawl_is_removed_says_so_and_ends_though_pages_are_in_progress(scrapy, crawl, valkey):
    links = "".join(f"<a href=/{number}>p</a>" for number in range(200))
    with LocalSite({"/": links, "/*": "<h1>a page</h1>"}, latency=0.2) as site:
        run = scrapy("crawl", "chain", "-a", f"site={site.url}", settings={"SILKLINE_LEASE": 1})
        until(lambda: len(site.visits) > 5)
        with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
            frontier.admin.remove()
        until(lambda: not run.running)
    assert run.stats["finish_reason"] == "silkline_error"
    assert f"the spider closes: the crawl '{crawl}' is no longer on the server" in run.log


def test_what_waits_on_disk_outlives_a_worker_that_is_killed(scrapy, out, crawl, valkey, tmp_path):
    """A link that does not fit is on the disk before the page that has it is completed."""
    tree = {f"/{number}": f"<a href=/{2 * number}>0</a> <a href=/{2 * number + 1}>1</a>" for number in range(1, 64)}
    settings = {"SILKLINE_LEASE": 1, "SILKLINE_CAPACITY": 4, "SILKLINE_OVERFLOW": tmp_path / "links.db"}
    with LocalSite(tree | {"/*": "<h1>a leaf</h1>"}, latency=0.02) as site:
        command = ("crawl", "chain", "-a", f"site={site.at('/1')}")
        victim = scrapy(*command, settings=settings)
        until(lambda: len(lines(out)) > 10)
        with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
            until(lambda: frontier.admin.stats().overflow > 0)
        victim.kill()
        heir = scrapy(*command, settings=settings)
        assert heir.wait() == 0, heir.log
        assert {item["url"] for item in lines(out)} == {site.at(f"/{number}") for number in range(1, 128)}


def test_a_worker_that_was_frozen_past_its_leases_does_no_harm(scrapy, out, crawl, valkey):
    shop = Shop(pages=80, trouble=False)
    settings = QUICK | {"SCHEDULER_PERSIST": True, "SILKLINE_LEASE": 1}
    with SiteProcess(shop, latency=0.05) as site:
        frozen = scrapy("crawl", "chain", "-a", f"site={site.url}", settings=settings)
        until(lambda: len(lines(out)) > 10)
        os.kill(frozen.pid, signal.SIGSTOP)
        other = scrapy("crawl", "chain", "-a", f"site={site.url}", settings=settings)
        assert other.wait() == 0, other.log  # it waits for the leases to expire, and takes them over
        assert {item["url"].removeprefix(site.url.rstrip("/")) for item in lines(out)} == set(shop.paths())
        os.kill(frozen.pid, signal.SIGCONT)
        assert frozen.wait() == 0, frozen.log
    assert "lost" in frozen.log
    with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
        stats = frontier.admin.stats()
    assert (stats.pending, stats.leased, stats.dead, stats.done) == (0, 0, 0, shop.pages)
    assert stats.conserved
