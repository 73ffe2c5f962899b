"""What goes wrong ends: settled, or where people see it, and can have it tried again."""

from __future__ import annotations

import pytest

from silkline import Request, SyncFrontier
from silkline.testing.site import LocalSite, Shop, SiteProcess, SiteResponse
from tests.scrapy.conftest import both_versions
from tests.scrapy.processes import lines, until
from tests.servers import free_port

FINE = "<h1>fine</h1>"


@pytest.fixture
def site():
    busy = iter([SiteResponse("busy", status=429, headers={"Retry-After": "1"})])
    routes = {
        "/": "<a href=/fine>start</a>",
        "/moved": SiteResponse(status=302, headers={"Location": "/moved-to"}),
        "/broken": 500,
        "/busy": lambda _: next(busy, SiteResponse(FINE)),
        "/handled": 404,
        "/passed-on": 404,
        "/errback-raises": 404,
    }
    fine = "fine moved-to replacement raises drops fails last found-before-the-exception ignored replaced"
    fine += " unstorable selector too-large surrogate speechless untold"
    with LocalSite(routes | {f"/{name}": FINE for name in fine.split()}) as site:
        yield site


@both_versions
def test_whatever_happens_to_a_request_is_settled(scrapy, out, valkey, crawl, site, version):
    closed = f"http://127.0.0.1:{free_port()}"
    run = scrapy("crawl", "trouble", "-a", f"site={site.url}", "-a", f"closed={closed}", version=version)
    assert run.wait() == 0, run.log
    found = lines(out)
    reached = {item["url"].removeprefix(site.url) for item in found if "url" in item}
    kept_here = {"selector", "too-large", "data:,hello", "file:///etc/hostname"}
    well = {"fine", "moved-to", "replacement", "busy", "raises", "last", "found-before-the-exception"}
    assert reached == well | kept_here
    assert {item["handled"] for item in found if "handled" in item} == {site.at("/handled"), f"{closed}/handled"}
    paths = [visit.path for visit in site.visits]
    assert "/ignored" not in paths
    assert "/replaced" not in paths
    assert paths.count("/broken") == paths.count("/busy") == 2  # RETRY_TIMES is 1
    assert len(set(paths)) == len(paths) - 2

    with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
        stats = frontier.admin.stats()
        assert (stats.pending, stats.leased) == (0, 0)
        assert stats.conserved
        letters = {letter.request.url.replace(site.url, "/"): letter for letter in frontier.admin.dead()}
        reasons = {url.replace(closed, "closed"): letter.reason for url, letter in letters.items()}
        assert "refused" in reasons.pop("closed/")
        assert "refused" in reasons.pop("closed/passed-on")
        assert reasons.pop("/speechless").startswith("Speechless: ")
        assert reasons.pop("/untold").startswith("the result of the page could not be stored: ")
        assert reasons == {
            "/missing": "HTTP status 404",
            "/broken": "HTTP status 500",
            "/passed-on": "HTTP status 404",
            "/errback-raises": "RuntimeError: the errback is broken too",
            "/raises": "KeyError: 'half-way'",
            "/surrogate": "ValueError: a name of half a character: ?",
            "/fails": "an item was not stored: ValueError: this item cannot be stored",
        }
        assert letters["/missing"].status == 404
        assert "parse_raises" in letters["/raises"].history[-1].detail

    for what in (
        "callback",
        "meta['deep'][0]['selector']: a scrapy.selector.unified.SelectorList",
        "not data:",
        "not file:",
        "the cap is 65536",
    ):
        assert what in run.log
    assert run.stats["scheduler/unserializable"] == 5


def test_dead_letters_are_revived_and_unreadable_records_buried(scrapy, out, valkey, crawl, site):
    with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
        frontier.enqueue(
            [
                Request(site.at("/missing"), handler="parse_fine"),
                Request(site.at("/x"), handler="no_longer_there"),
                Request(site.at("/y"), meta={"C": "no.such.Request"}),
                Request(site.at("/z"), meta={"C": "builtins.dict"}),
                Request(site.at("/v"), meta={"m": {"a": {"\x00": ["rocket", 1]}}}),
            ]
        )
    assert scrapy("crawl", "trouble").wait() == 0
    assert [visit.path for visit in site.visits] == ["/missing"]
    with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
        letters = {letter.request.url.removeprefix(site.url): letter.reason for letter in frontier.admin.dead()}
        assert letters.pop("missing") == "HTTP status 404"
        assert letters.pop("x") == "the spider 'trouble' has no method 'no_longer_there'"
        assert "no.such.Request is not imported in this process" in letters.pop("y")
        assert "is not a subclass of scrapy.Request" in letters.pop("z")
        assert "rocket" in letters.pop("v")
        assert frontier.admin.revive(reason="HTTP status 404") == 1
    site.routes["/missing"] = FINE
    assert scrapy("crawl", "trouble").wait() == 0
    assert lines(out)[-1]["url"] == site.at("/missing")


def test_a_spider_whose_crawl_is_removed_closes_and_says_why(scrapy, out, valkey, crawl):
    with SiteProcess(Shop(pages=2_000, trouble=False), latency=0.05) as site:
        run = scrapy("crawl", "chain", "-a", f"site={site.url}", settings={"CONCURRENT_REQUESTS": 2})
        until(lambda: len(lines(out)) > 5)
        with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
            frontier.admin.remove()
        assert run.wait() == 1
    run.said("the spider closes:")
    assert run.stats["finish_reason"] == "silkline_error"
    assert "Slot close failure" not in run.log
