"""Scrapy's command-line tools in a project of Silkline: they do their work in memory, and leave the server as it was."""

from __future__ import annotations

import pytest

from silkline import SyncFrontier
from tests.scrapy.conftest import both_versions, every_version

SETTINGS = {"ROBOTSTXT_OBEY": False, "STATS_CLASS": "scrapy_redis.stats.RedisStatsCollector"}


@pytest.fixture
def client(valkey):
    with valkey.client() as client:
        yield client


@pytest.fixture
def stopped_crawl(valkey, client, crawl, site):
    """A crawl that waits for its next run, and a start message. Returns a function that returns everything on the server."""
    of_others = set(client.scan_iter())  # other tests use the server too
    with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
        frontier.enqueue([site.at("/c"), site.at("/a")])
    client.rpush(f"{crawl}:start_urls", site.at("/a"))

    def everything():
        return {key: client.dump(key) for key in client.scan_iter() if key not in of_others}

    return everything


@pytest.fixture
def tool(scrapy, site, crawl):
    """Runs a tool to its end, and returns what it has printed and logged."""

    def run(name, *words, version="newest", **settings):
        settings = {**SETTINGS, "REDIS_START_URLS_KEY": f"{crawl}:start_urls", **settings}
        where = {"SITE": site.url.rstrip("/"), "BROWSER": "true"}
        process = scrapy(name, *words, version=version, settings=settings, **where)
        assert process.wait() == 0, process.log
        for bad in ("ERROR", "CRITICAL", "Traceback", "Silkline uses the crawl"):
            assert bad not in process.log, process.log
        return process.log

    return run


def paths(site):
    return [visit.path for visit in site.visits]


@every_version
@pytest.mark.parametrize("spider", ["fed", "shop", None])
@pytest.mark.parametrize("name", ["fetch", "view", "shell"])
def test_a_tool_that_fetches_one_page_leaves_the_server_as_it_was(tool, stopped_crawl, site, name, spider, version):
    before = stopped_crawl()
    words = [
        *(("--spider", spider) if spider else ()),
        *(("-c", "'status', response.status") if name == "shell" else ()),
    ]
    log = tool(name, site.at("/c"), *words, version=version)
    if name != "view":
        assert {"fetch": "<h1>c</h1>", "shell": "('status', 200)"}[name] in log
    assert paths(site) == ["/c"]
    assert stopped_crawl() == before


@every_version
def test_parse_prints_its_result_and_ends(tool, stopped_crawl, site, version):
    before = stopped_crawl()
    log = tool("parse", "--spider", "fed", "--nocolour", site.at("/a"), version=version)
    assert f"[{{'url': '{site.at('/a')}'}}]" in log
    assert f"<GET {site.at('/c')}>" in log
    assert paths(site) == ["/a"]
    assert stopped_crawl() == before


@both_versions
def test_parse_follows_links_each_once(tool, stopped_crawl, site, version):
    before = stopped_crawl()
    tool("parse", "--spider", "fed", "--depth", "3", "--nocolour", site.at("/a"), version=version)
    assert sorted(paths(site)) == ["/", "/a", "/a?x=1", "/a?x=2", "/b", "/c"]
    assert stopped_crawl() == before


@both_versions
def test_check_runs_the_contracts(tool, stopped_crawl, site, version):
    before = stopped_crawl()
    assert "Ran 1 contract in" in tool("check", "fed", version=version)
    assert paths(site) == ["/b"]
    assert stopped_crawl() == before


@both_versions
def test_list_lists(tool, stopped_crawl, version):
    before = stopped_crawl()
    assert "fed\n" in tool("list", version=version)
    assert stopped_crawl() == before


def test_bench_measures_scrapy_itself(tool, stopped_crawl):
    before = stopped_crawl()
    assert "Closing spider (closespider_pagecount)" in tool("bench", CLOSESPIDER_PAGECOUNT=5)
    assert stopped_crawl() == before


@both_versions
def test_a_tool_needs_no_server(tool, site, version):
    url = "redis://127.0.0.1:1/0"
    assert "'url'" in tool("parse", "--spider", "fed", "--nocolour", site.at("/b"), version=version, REDIS_URL=url)


def test_the_guard_also_holds_in_tools(scrapy, site):
    fetch = scrapy("fetch", site.at("/b"), settings={"SILKLINE_ALLOW_PRIVATE": False, "ROBOTSTXT_OBEY": False})
    assert fetch.wait() == 0
    assert "Silkline connects to public addresses only" in fetch.log
    assert paths(site) == []
