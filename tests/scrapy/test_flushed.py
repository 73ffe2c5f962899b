"""The server is flushed under a spider: one that waits continues, one that works ends with a sentence and an exit code."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from silkline import Politeness, SyncFrontier
from silkline.testing import LocalSite
from silkline.testing.site import SiteResponse
from tests.scrapy.conftest import every_version
from tests.scrapy.feeding import Spiders, items
from tests.scrapy.processes import lines, until

IDLE = "no worker has anything to do"


@pytest.fixture
def site():
    with LocalSite({"/page/*": "a page"}) as site:
        yield site


@pytest.fixture
def server(own_server):
    return own_server()


def wait_until_idle(spider):
    """Until the spider knows by itself that nothing is left to do."""
    before = spider.log.count(IDLE)
    until(lambda: spider.log.count(IDLE) > before)


@every_version
def test_spiders_that_wait_create_their_crawl_again_and_continue(zygotes, server, site, crawl, tmp_path, version):
    key, settings = f"{crawl}:start_urls", {"CONCURRENT_REQUESTS_PER_DOMAIN": 3}
    with ExitStack() as stack:
        client = stack.enter_context(server.client())

        def push(*names):
            client.rpush(key, *(json.dumps({"url": site.at(f"/page/{one}"), "dont_filter": False}) for one in names))

        def crawled():
            return sorted(item["url"].rpartition("/")[2] for item in items(client, f"{crawl}:items"))

        pair = [
            stack.enter_context(Spiders(zygotes(version), tmp_path, server.url, {crawl: ("LogsWhenIdle", settings)}))
            for _ in range(2)
        ]
        for spider in pair:
            spider.said("Silkline uses the crawl")
        push("before", "twice")
        until(lambda: crawled() == ["before", "twice"])
        with SyncFrontier.open(server.url, crawl=crawl, create=False) as frontier:
            until(frontier.finished)
        for spider in pair:
            wait_until_idle(spider)
        client.flushall()
        for spider in pair:
            spider.said(f"the crawl '{crawl}' is no longer on the server")
        push("after", "twice", "twice")
        until(lambda: crawled() == ["after", "twice"])
        with SyncFrontier.open(server.url, crawl=crawl, create=False) as frontier:
            assert frontier.layout.settings.politeness == Politeness(delay=0, concurrency=3)
            until(lambda: len(frontier.admin.workers()) == 2)
        for spider in pair:
            spider.interrupt()
            log = spider.finish()
            assert log.count("so the spider creates it again and continues") == 1
            assert "ERROR" not in log
            assert "Closing spider (shutdown)" in log
    assert sorted(site.visits.paths) == [f"/page/{one}" for one in ("after", "before", "twice", "twice")]


@every_version
def test_a_spider_that_works_ends_with_a_sentence_and_an_exit_code(scrapy, server, site, crawl, out, version):
    site.routes["/endless/*"] = lambda _: SiteResponse(f"<a href=/endless/{len(site.visits)}>1</a>", delay=0.05)
    run = scrapy("crawl", "mishaps", "-a", f"urls={site.at('/endless/0')}", version=version, url=server.url)
    until(lambda: len(lines(out)) > 3)
    with server.client() as client:
        client.flushall()
    assert run.wait() == 1, run.log
    assert f"the spider closes: the crawl '{crawl}' is no longer on the server: FLUSHDB" in run.log
    assert "what was waiting is lost. Start the spider again" in run.log
    assert run.log.count("the spider closes: ") == 1
    assert run.stats["finish_reason"] == "silkline_error"
    assert "Traceback" not in run.log


@every_version
def test_a_spider_that_ends_well_or_is_interrupted_exits_with_0(scrapy, site, out, version):
    assert scrapy("crawl", "mishaps", "-a", f"urls={site.at('/page/1')}", version=version).wait() == 0
    site.routes["/endless/*"] = lambda _: SiteResponse(f"<a href=/endless/{len(site.visits)}>1</a>", delay=0.05)
    run = scrapy("crawl", "mishaps", "-a", f"urls={site.at('/endless/0')}", version=version)
    until(lambda: len(lines(out)) > 3)
    run.interrupt()
    assert run.wait() == 0, run.log
