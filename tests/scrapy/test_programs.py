"""Spiders that programs run: several in one process, one after the other, with fingerprints and filters of their own."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from silkline import SyncFrontier
from silkline.runtime.memory import THRESHOLDS
from silkline.testing.site import SiteResponse
from tests.scrapy.conftest import both_versions, every_version
from tests.scrapy.processes import HERE, SHOP_PROJECT, lines, until


def reached(out, name="one"):
    return Counter(fact["url"] for fact in lines(out) if fact["spider"].endswith(name))


ALL = {"/": 2, "/a?x=1": 1, "/a?x=2": 1, "/b": 1, "/c": 1}  # the start page is not filtered, and linked once more


@both_versions
def test_two_spiders_in_one_process_crawl_each_for_itself(program, out, version):
    program("together", version)
    assert reached(out, "one") == reached(out, "two") == ALL


def test_spiders_run_in_an_asynchronous_process(program, out):
    """Scrapy has it since 2.14."""
    program("together_async", TWISTED_REACTOR="twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    assert reached(out, "one") == reached(out, "two") == ALL


@every_version
def test_spiders_run_on_a_reactor_that_is_not_asyncios(program, out, version):
    program("together", version, TWISTED_REACTOR="twisted.internet.selectreactor.SelectReactor")
    assert reached(out, "one") == reached(out, "two") == ALL


def test_spiders_run_without_a_reactor(program, out):
    """Newer versions of Scrapy can do without Twisted's."""
    program("together_async", TWISTED_REACTOR_ENABLED=False)
    assert reached(out, "one") == reached(out, "two") == ALL


def test_a_process_without_a_reactor_that_is_ordered_twice_to_stop_leaves_its_page_to_the_next(
    scrapy, program, site, out, tmp_path, valkey, crawl
):
    page, site.routes["/"] = site.routes["/"], SiteResponse("slow", delay=60)
    settings = {"TWISTED_REACTOR_ENABLED": False, "SCHEDULER_PERSIST": True}
    where = {"SITE": site.url.rstrip("/"), "SETTINGS": json.dumps(settings)}
    run = scrapy(str(HERE / "programs.py"), "alone_async", folder=tmp_path, **where)
    until(lambda: len(site.visits) == 1)
    run.interrupt()
    run.said("Closing spider (shutdown)")
    run.interrupt()
    run.wait()
    with SyncFrontier.open(valkey.url, crawl=f"{crawl}-one", create=False) as frontier:
        assert frontier.admin.stats().dead == 0
    site.routes["/"] = page
    program("alone_async", **settings)
    assert set(reached(out)) == ALL.keys()


def test_the_garbage_collector_leaves_out_what_exists_when_the_spider_opens_unless_the_project_forbids_it(program, out):
    program("collector")
    program("collector", SILKLINE_GC_FREEZE=False)
    relieved, untouched = [fact for fact in lines(out) if "frozen" in fact]
    assert (relieved["frozen"], relieved["after"]) == (True, list(THRESHOLDS))
    assert (untouched["frozen"], untouched["after"]) == (False, untouched["before"])


@both_versions
def test_a_download_handler_of_the_projects_own_is_used(program, out, version):
    program("alone", version, DOWNLOAD_HANDLERS={"http": "tests.scrapy.programs.InThread"})
    assert reached(out) == ALL


def test_one_crawl_after_the_other_starts_over_unless_it_persists(program, out):
    program("in_sequence")
    assert reached(out, "one") == {path: 2 * times for path, times in ALL.items()}
    assert reached(out, "two") == ALL
    out.unlink()
    program("in_sequence", SCHEDULER_PERSIST=True)
    assert reached(out, "one") == ALL | {"/": 3}
    out.unlink()
    program("in_sequence", SCHEDULER="tests.scrapy.programs.Persists", SCHEDULER_QUEUE_KEY="%(spider)s-kept:requests")
    assert reached(out, "one") == ALL | {"/": 3}


def test_a_filter_may_leave_the_constructor_of_its_base_class_out(program, out):
    program("alone", DUPEFILTER_CLASS="tests.scrapy.programs.BareFilter", DUPEFILTER_DEBUG=False)
    assert reached(out) == ALL


def test_the_projects_own_fingerprinter_decides_what_is_the_same(program, out):
    program("alone", REQUEST_FINGERPRINTER_CLASS="tests.scrapy.programs.ByPath")
    found = reached(out)
    assert found["/a?x=1"] + found["/a?x=2"] == 1
    assert sum(found.values()) == 5
    out.unlink()
    theirs = "scrapy_redis.dupefilter.RFPDupeFilter"
    program("alone", REQUEST_FINGERPRINTER_CLASS="tests.scrapy.programs.ByPath", DUPEFILTER_CLASS=theirs)
    assert sum(reached(out).values()) == 5


def test_a_filter_of_the_projects_own_is_asked(program, out):
    program("alone", DUPEFILTER_CLASS="tests.scrapy.programs.SeenTwice")
    assert reached(out) == {"/": 3, "/a?x=1": 2, "/a?x=2": 2, "/b": 4, "/c": 2}  # and b#top is another


def test_a_blocked_reactor_keeps_its_leases(program, out, site):
    run = program("slow", SILKLINE_LEASE=1)
    assert reached(out) == ALL
    assert "lost" not in run.log


def test_requests_of_a_reactor_that_is_blocked_for_too_long_are_left_to_others(
    scrapy, out, site, tmp_path, valkey, crawl
):
    settings = {"SILKLINE_BLOCKED_LIMIT": 1, "SCHEDULER_PERSIST": True}
    where = {"SITE": site.url.rstrip("/"), "SETTINGS": json.dumps(settings)}
    run = scrapy(str(HERE / "programs.py"), "frozen", folder=tmp_path, **where)
    until(lambda: "frozen" in reached(out))
    with SyncFrontier.open(valkey.url, crawl=f"{crawl}-one", create=False) as frontier:
        [lease] = frontier.claim(1, wait=30)
        assert lease.url == site.url
        out.with_name(out.name + ".go").touch()
        run.said("the reactor runs again")
        frontier.complete(lease)
    assert run.wait() == 0
    assert run.log.count("the reactor has been blocked for") == 1


def test_a_request_that_is_stored_and_not_yet_claimed_keeps_the_spider_open(program, out, site):
    run = program("hesitant")
    assert reached(out) == ALL | {"/": 1}, run.log


def test_a_full_crawl_puts_pages_back_until_there_is_room(program, out, site):
    site.routes["/"] = "".join(f"<a href=/p{number}>p</a>" for number in range(12))
    site.routes["/p*"] = "<h1>p</h1>"
    run = program("alone", SILKLINE_CAPACITY=8)
    assert set(reached(out)) == {"/", *(f"/p{number}" for number in range(12))}, run.log
    assert run.stats["scheduler/full"] > 0


def test_links_that_copied_the_meta_of_a_start_request_wait_with_their_page(program, out, site):
    """Nobody but the page would find them again if the process died."""
    site.routes["/"] = "".join(f"<a href=/p{number}>p</a>" for number in range(12))
    site.routes["/p*"] = "<h1>p</h1>"
    program("copies", SILKLINE_CAPACITY=8)
    assert set(reached(out)) == {"/", *(f"/p{number}" for number in range(12))}
    assert reached(out)["/"] > 1


TREE = {f"/t{number}": f"<a href=/t{2 * number}>0</a> <a href=/t{2 * number + 1}>1</a>" for number in range(1, 32)}


def test_a_full_crawl_with_an_overflow_moves_on_and_fetches_no_page_twice(program, out, site, tmp_path):
    """Of a tree more pages wait than there is room for, and every page has links that find none."""
    site.routes |= TREE | {"/": "<a href=/t1>the tree</a>", "/t*": "<h1>a leaf</h1>"}
    settings = {"SILKLINE_CAPACITY": 4, "CONCURRENT_REQUESTS": 4, "CLOSESPIDER_TIMEOUT": 60}
    run = program("alone", SILKLINE_OVERFLOW=str(tmp_path / "links.db"), **settings)
    assert reached(out) == {"/": 1} | {f"/t{number}": 1 for number in range(1, 64)}
    assert run.stats["scheduler/spilled"] > 0
    assert "scheduler/full" not in run.stats


def test_start_requests_wait_while_the_crawl_is_full(scrapy, out, site, tmp_path, crawl, valkey):
    site.routes["/p*"] = "<h1>p</h1>"
    where = {"SITE": site.url.rstrip("/"), "SETTINGS": json.dumps({"SILKLINE_CAPACITY": 8})}
    with SyncFrontier.open(valkey.url, crawl=f"{crawl}-one", capacity=8) as frontier:
        frontier.enqueue([site.at(f"/p{number}") for number in range(8)])
        frontier.admin.pause()
        run = scrapy(str(HERE / "programs.py"), "alone", folder=tmp_path, **where)
        until(lambda: frontier.admin.stats().turned_away)
        frontier.admin.resume()
    assert run.wait() == 0, run.log
    assert set(reached(out)) == {*ALL, *(f"/p{number}" for number in range(8))}
    assert run.stats["scheduler/full"] > 0


@every_version
def test_the_first_page_arrives_while_start_still_yields_requests(program, out, site, version):
    """The downloader is full at once, and Scrapy's engine would then read all of start() before anything else."""
    site.routes["/p*"] = "<h1>p</h1>"
    program("many", version)
    [fact] = lines(out)
    assert fact["landed"], f"no page arrived before all {fact['yielded']} start requests were read"


@every_version
def test_a_project_without_the_add_on_learns_what_it_misses(program, out, version):
    run = program("alone", version, ADDONS={}, SCHEDULER="silkline.scrapy.Scheduler")
    assert reached(out) == ALL
    assert "Silkline's middlewares are not enabled" in run.log
    assert "are not enabled" not in program("alone", version).log


def test_without_a_server_an_embedded_one_is_used(scrapy, site, out, tmp_path):
    spider = (SHOP_PROJECT / "typical" / "spiders" / "chain.py").read_text()
    line = '"ADDONS": {"silkline.scrapy.Addon": 1}, "ROBOTSTXT_OBEY"'
    (tmp_path / "chain.py").write_text(spider.replace('"ROBOTSTXT_OBEY"', line))
    items = tmp_path / "items.jsonl"
    run = scrapy(
        "runspider", "chain.py", "-a", f"site={site.url}", "-O", str(items),
        folder=tmp_path,
        settings={"REDIS_URL": None, "SCHEDULER_PERSIST": True, "SILKLINE_CRAWL": None, "SILKLINE_CAPACITY": 2},
    )  # fmt: skip
    assert run.wait() == 0, run.log
    assert len(lines(items)) == 5
    assert run.stats["scheduler/spilled"] > 0  # it has a place for an overflow
    with SyncFrontier.open(f"embedded:{tmp_path}/.silkline", crawl="chain", create=False) as frontier:
        assert frontier.admin.stats().done == 5


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"SCHEDULER_IDLE_BEFORE_CLOSE": -1}, "SCHEDULER_IDLE_BEFORE_CLOSE must be a number of at least 0, got -1"),
        ({"SILKLINE_LEASES": 3}, "unknown setting SILKLINE_LEASES"),
    ],
)
def test_a_wrong_setting_is_reported_in_a_sentence_before_anything_is_fetched(
    scrapy, site, tmp_path, settings, sentence
):
    where = {"SITE": site.url.rstrip("/"), "SETTINGS": json.dumps(settings)}
    run = scrapy(str(HERE / "programs.py"), "alone", folder=tmp_path, **where)
    run.wait()
    assert sentence in run.log
    assert len(site.visits) == 0
