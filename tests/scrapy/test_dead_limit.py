"""How many dead letters a spider keeps, and what becomes of them when it closes."""

from __future__ import annotations

import logging

import pytest
from scrapy.settings import Settings

from silkline import Bury, Frontier, SyncFrontier
from silkline.errors import ConfigError, UnknownCrawl
from silkline.scrapy.bridge import opening
from silkline.scrapy.convert.settings import PluginOptions
from silkline.testing.site import LocalSite
from tests.scrapy.conftest import both_versions
from tests.scrapy.test_settings import Books

GONE = 8


@pytest.fixture
def site():
    with LocalSite({"/": "".join(f"<a href=/gone{n}>x</a>" for n in range(GONE)), "/robots.txt": 404}) as site:
        yield site


def test_the_limit_is_a_setting():
    assert PluginOptions.read(Settings({"SILKLINE_DEAD_LIMIT": "7"}), Books()).arguments["dead_limit"] == 7
    assert "dead_limit" not in PluginOptions.read(Settings(), Books()).arguments
    with pytest.raises(ConfigError, match="SILKLINE_DEAD_LIMIT must be a whole number of at least 0, got 'all'"):
        PluginOptions.read(Settings({"SILKLINE_DEAD_LIMIT": "all"}), Books())


def test_durability_is_a_setting():
    assert PluginOptions.read(Settings({"SILKLINE_DURABILITY": "always"}), Books()).arguments["durability"] == "always"
    assert "durability" not in PluginOptions.read(Settings(), Books()).arguments


async def test_a_crawl_that_exists_takes_over_the_limit(valkey, crawl, caplog):
    caplog.set_level(logging.INFO, "silkline")
    options = PluginOptions(url=valkey.url, crawl=crawl, dead_limit=2)
    async with await Frontier.open(valkey.url, crawl=crawl, dead_limit=0, politeness=options.politeness) as frontier:
        await frontier.enqueue([f"https://a.example/{number}" for number in range(5)])
        await frontier.settle([(lease, Bury("no")) for lease in await frontier.claim(5)])
    opened = await opening.open_frontier(options, "new")
    async with opened.frontier:
        assert (opened.stats.dead, opened.stats.dead_limit, opened.stats.dead_dropped) == (2, 2, 3)
    assert f"the dead limit of the crawl '{crawl}' was changed from 0 to 2 (0: none)" in caplog.text
    assert "keeps them" not in caplog.text
    kept = await opening.open_frontier(PluginOptions(url=valkey.url, crawl=crawl), "other")
    async with kept.frontier:
        assert kept.stats.dead_limit == 2, "a project without the setting changes nothing"


@both_versions
def test_a_spider_drops_the_oldest_and_warns_once(scrapy, valkey, crawl, site, version):
    run = scrapy("crawl", "chain", "-a", f"site={site.url}", version=version, settings={"SILKLINE_DEAD_LIMIT": 3})
    assert run.wait() == 0, run.log
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        stats = frontier.admin.stats()
    assert (stats.dead, stats.dead_dropped) == (3, GONE - 3)
    assert run.log.count("WARNING: the crawl") == run.log.count("the oldest are dropped") == 1
    assert "raise SILKLINE_DEAD_LIMIT (0 keeps all)" in run.log


@both_versions
def test_a_crawl_that_does_not_persist_reports_which_letters_go_with_it(scrapy, valkey, crawl, site, version):
    settings = {"SCHEDULER_PERSIST": False}
    run = scrapy("crawl", "chain", "-a", f"site={site.url}", version=version, settings=settings)
    assert run.wait() == 0, run.log
    assert (
        f"WARNING: {GONE} dead letters are removed with the crawl '{crawl}', because SCHEDULER_PERSIST is False: "
        in run.log
    )
    assert f"{GONE} × HTTP status 404. " in run.log
    assert "set SCHEDULER_PERSIST=True" in run.log
    with pytest.raises(UnknownCrawl):
        SyncFrontier.open(valkey.url, crawl=crawl, create=False)


def test_a_crawl_without_dead_letters_says_nothing(scrapy, site):
    site.routes |= {f"/gone{n}": "here" for n in range(GONE)}
    run = scrapy("crawl", "chain", "-a", f"site={site.url}", settings={"SCHEDULER_PERSIST": False})
    assert run.wait() == 0, run.log
    assert "dead letters" not in run.log
