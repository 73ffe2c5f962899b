"""Nothing is lost by a spider that is stopped, refused or left hanging half-way; nothing is passed over in silence."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

import pytest

from silkline import SyncFrontier
from silkline.testing.site import LocalSite, Shop, SiteProcess, SiteResponse, healing, redirect
from tests.held import after
from tests.scrapy.conftest import both_versions
from tests.scrapy.processes import lines, until

FINE = "<h1>fine</h1>"


@pytest.fixture
def site():
    with LocalSite({"/fine*": FINE}, hosts=2) as site:
        yield site


@pytest.fixture
def mishaps(scrapy, site):
    def start(*paths, version="newest", calm=False, flags=(), **settings):
        urls = " ".join(path if "://" in path else site.at(path) for path in paths)
        command = ("crawl", "mishaps", "-a", f"urls={urls}", *flags)
        return scrapy(*command, version=version, settings=settings, **({"CALM": 1} if calm else {}))

    return start


@pytest.fixture
def open_crawl(valkey, crawl):
    """Opens what the spider has left."""
    return lambda: SyncFrontier.open(valkey.url, crawl=crawl, create=False)


def reached(out, site):
    return [item["url"].removeprefix(site.url.rstrip("/")) for item in lines(out)]


def reasons(frontier, site):
    return {letter.request.url.removeprefix(site.url.rstrip("/")): letter.reason for letter in frontier.admin.dead()}


@both_versions
def test_a_link_that_cannot_be_taken_is_reported_with_its_page(mishaps, site, out, open_crawl, version):
    """Scrapy takes it for granted that a request can be scheduled, and would forget it without a word."""
    site.routes["/"] = "<a href=/fine/1>1</a> <a href=/unnamable>2</a> <a href=/fine/3>3</a>"
    run = mishaps("/", version=version, REQUEST_FINGERPRINTER_CLASS="typical.spiders.mishaps.Picky")
    assert run.wait() == 0, run.log
    assert sorted(reached(out, site)) == ["/", "/fine/1", "/fine/3"]
    with open_crawl() as frontier:
        assert reasons(frontier, site) == {
            "/": "an output of its callback could not be processed: ValueError: this has no name"
        }
    assert "/unnamable" in run.log


@both_versions
def test_a_page_that_closes_the_spider_is_put_back_and_buried_the_third_time(mishaps, site, out, open_crawl, version):
    site.routes["/stops"] = FINE
    for _ in range(2):
        run = mishaps("/stops", version=version)
        assert run.wait() == 0, run.log
        assert run.stats["finish_reason"] == "enough"
        with open_crawl() as frontier:
            stats = frontier.admin.stats()
            assert (stats.pending, stats.leased, stats.done, stats.dead) == (1, 0, 0, 0)
    calm = mishaps(version=version, calm=True)
    assert calm.wait() == 0, calm.log
    assert reached(out, site) == ["/stops"]


def test_a_page_that_always_closes_the_spider_becomes_a_dead_letter(mishaps, site, open_crawl):
    site.routes["/stops"] = FINE
    for _ in range(3):
        assert mishaps("/stops").wait() == 0
    with open_crawl() as frontier:
        assert reasons(frontier, site) == {"/stops": "CloseSpider: enough"}


@both_versions
def test_a_middleware_that_breaks_buries_the_page_and_keeps_what_it_gave(mishaps, site, out, open_crawl, version):
    site.routes["/breaks"] = "<a href=/fine>1</a>"
    run = mishaps("/breaks", version=version)
    assert run.wait() == 0, run.log
    assert reached(out, site) == ["/breaks"]
    with open_crawl() as frontier:
        assert reasons(frontier, site) == {"/breaks": "KeyError: 'the middleware broke'"}


def test_a_retry_that_cannot_be_stored_keeps_the_lease_of_what_it_replaces(mishaps, site, out, open_crawl):
    trouble = iter([503, SiteResponse(FINE, delay=60)])
    site.routes["/tangled"] = lambda _: next(trouble, FINE)
    killed = mishaps("/tangled")
    until(lambda: len(site.visits) == 2)
    assert "meta['session']" in killed.log
    killed.kill()
    run = mishaps()
    assert run.wait() == 0, run.log
    assert reached(out, site) == ["/tangled"]
    with open_crawl() as frontier:
        stats = frontier.admin.stats()
    assert (stats.pending, stats.leased, stats.dead) == (0, 0, 0)


@both_versions
def test_a_retry_that_cannot_be_stored_is_done_here_and_settled_once(mishaps, site, out, open_crawl, version):
    site.routes["/tangled"] = healing(503, FINE)
    run = mishaps("/tangled", "/fine", version=version)
    assert run.wait() == 0, run.log
    assert sorted(reached(out, site)) == ["/fine", "/tangled"]
    with open_crawl() as frontier:
        stats = frontier.admin.stats()
    assert (stats.pending, stats.leased, stats.dead, stats.done) == (0, 0, 0, 2)


@both_versions
def test_a_retry_that_comes_up_while_the_spider_closes_is_left_to_the_next(mishaps, site, out, open_crawl, version):
    closing, trouble = threading.Event(), []
    trouble.append(after(closing, SiteResponse(status=503)))
    site.routes["/busy"] = lambda visit: trouble.pop()(visit) if trouble else FINE
    run = mishaps("/busy", version=version)
    until(lambda: len(site.visits) == 1)
    run.interrupt()
    run.said("Closing spider (shutdown)")
    closing.set()
    assert run.wait() == 0, run.log
    with open_crawl() as frontier:
        stats = frontier.admin.stats()
    assert (stats.pending, stats.leased, stats.done) == (1, 0, 1)
    assert mishaps(version=version).wait() == 0
    assert lines(out) == [{"url": site.at("/busy"), "priority": -1}]  # as Scrapy has it for what is tried again


def test_a_redirect_to_another_host_replaces_the_request(mishaps, site, out, open_crawl):
    site.routes["/moved"] = lambda _: redirect(site.at("/fine", 1))
    run = mishaps("/moved")
    assert run.wait() == 0, run.log
    assert [item["url"] for item in lines(out)] == [site.at("/fine", 1)]
    assert [visit.path for visit in site.visits] == ["/moved", "/fine"]
    with open_crawl() as frontier:
        stats = frontier.admin.stats()
    assert (stats.accepted, stats.done) == (2, 2)


def test_a_download_that_takes_too_long_is_retried_and_then_buried(mishaps, site, open_crawl):
    site.routes["/slow"] = SiteResponse(FINE, delay=30)
    run = mishaps("/slow", DOWNLOAD_TIMEOUT=3)
    assert run.wait() == 0, run.log
    assert [visit.path for visit in site.visits] == ["/slow", "/slow"]
    with open_crawl() as frontier:
        assert "imeout" in reasons(frontier, site)["/slow"]
        assert frontier.admin.stats().leased == 0


@both_versions
def test_a_start_that_breaks_keeps_what_it_gave_before(mishaps, site, out, open_crawl, version):
    run = mishaps("/fine/1", "/fine/2", version=version, flags=("-a", "raises=1"))
    assert run.wait() == 0, run.log
    assert sorted(reached(out, site)) == ["/fine/1", "/fine/2"]
    assert "the start is broken" in run.log


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_ordered_twice_to_stop_leaves_what_it_had_to_the_next(mishaps, site, out, open_crawl, end):
    """An item pipeline hangs: the first time the spider waits for it, the second time it does not."""
    site.routes["/hangs"] = "<a href=/fine>1</a>"
    run = mishaps("/hangs")
    until(lambda: "/fine" in reached(out, site))
    with open_crawl() as frontier:
        until(lambda: frontier.admin.stats().done == 1)
    os.kill(run.pid, end)
    run.said("Closing spider (shutdown)")
    os.kill(run.pid, end)
    run.wait()
    with open_crawl() as frontier:
        assert (frontier.admin.stats().dead, frontier.admin.stats().done) == (0, 1)
    after = mishaps(calm=True)
    assert after.wait() == 0, after.log
    assert sorted(reached(out, site)) == ["/fine", "/hangs"]
    with open_crawl() as frontier:
        stats = frontier.admin.stats()
    assert (stats.pending, stats.leased, stats.dead, stats.done) == (0, 0, 0, 2)


@both_versions
def test_a_spider_that_is_about_to_close_leaves_to_others_what_it_has_not_begun(
    mishaps, site, out, open_crawl, version
):
    """Its slowest page may take minutes, and what was claimed ahead would wait for it."""
    closing, given_back = threading.Event(), threading.Event()
    site.routes["/slow"] = after(given_back, FINE)
    site.routes["/"] = "<a href=/slow>1</a>" + "".join(f"<a href=/fine/{number}>2</a>" for number in range(40))
    site.routes["/fine/*"] = after(closing, FINE, free=12)
    run = mishaps("/", version=version, CONCURRENT_REQUESTS=8, SILKLINE_LEASE=30)
    until(lambda: len(lines(out)) > 8)
    run.interrupt()
    run.said("Closing spider (shutdown)")
    closing.set()
    with open_crawl() as frontier:
        until(lambda: frontier.admin.stats().leased == 1)
        assert run.running
        assert frontier.admin.stats().pending > 0
    given_back.set()
    assert run.wait() == 0, run.log
    assert mishaps(version=version).wait() == 0
    assert sorted(reached(out, site)) == sorted(["/", "/slow", *(f"/fine/{number}" for number in range(40))])


@both_versions
def test_a_crawl_that_is_removed_closes_its_spider_with_a_sentence(mishaps, site, out, open_crawl, version):
    site.routes["/endless/*"] = lambda _: SiteResponse(f"<a href=/endless/{len(site.visits)}>1</a>", delay=0.05)
    run = mishaps("/endless/0", version=version)
    until(lambda: len(lines(out)) > 3)
    with open_crawl() as frontier:
        frontier.admin.remove()
    assert run.wait() == 1, run.log
    assert run.stats["finish_reason"] == "silkline_error"
    assert run.log.count("the spider closes: ") == 1
    assert "Traceback" not in run.log


def test_a_spider_that_is_stopped_while_its_crawl_is_opened_ends(scrapy, own_server, site):
    server = own_server()
    server.freeze()
    run = scrapy("crawl", "mishaps", "-a", f"urls={site.at('/fine')}", url=server.url)
    run.said("Spider opened")
    run.interrupt()
    run.wait()
    assert "Received SIGINT" in run.log
    assert [visit.path for visit in site.visits] == []


def test_a_spider_that_closes_while_its_server_is_away_waits_for_it_and_loses_nothing(scrapy, own_server, out, crawl):
    server, shop = own_server(appendonly="yes", appendfsync="always"), Shop(pages=60, trouble=False)
    with SiteProcess(shop, latency=0.05) as site:

        def start():
            settings = {"CONCURRENT_REQUESTS": 4, "SILKLINE_LEASE": 30}
            return scrapy("crawl", "chain", "-a", f"site={site.url}", url=server.url, settings=settings)

        run = start()
        until(lambda: len(lines(out)) > 15)
        server.kill()
        run.said("the server is unreachable")
        run.interrupt()
        run.said("Closing spider (shutdown)")
        server.start()
        assert run.wait() == 0, run.log
        assert "could not be stored" not in run.log
        assert start().wait() == 0
        reached = Counter(item["url"].removeprefix(site.url.rstrip("/")) for item in lines(out))
    assert reached == Counter(shop.paths())
    with SyncFrontier.open(server.url, crawl=crawl, create=False) as frontier:
        stats = frontier.admin.stats()
    assert (stats.pending, stats.leased, stats.dead, stats.done) == (0, 0, 0, shop.pages)
