"""A spider or an add-on of Silkline with a scheduler that is not Silkline's: it works, and says what is missing."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.scrapy.conftest import both_versions
from tests.scrapy.feeding import Spiders, items
from tests.scrapy.processes import BOTH, lines

SCRAPYS = "scrapy.core.scheduler.Scheduler"
WARNING = "which is not Silkline's: requests are not stored in a Silkline crawl"
ADD = 'To use Silkline\'s scheduler, add ADDONS = {"silkline.scrapy.Addon": 100} to the settings'
REMOVE = f"remove SCHEDULER = {SCRAPYS!r}"


@pytest.fixture
def client(valkey):
    with valkey.client() as client:
        yield client


@pytest.fixture
def fed(zygotes, valkey, client, crawl, site, tmp_path):
    """Runs a spider that is fed with two URLs, of which one is missing, and returns its log."""
    with ExitStack() as stack:

        def run(version, **settings):
            client.rpush(f"{crawl}:start_urls", site.at("/b"), site.at("/missing"))
            spiders = {crawl: ("Fed", {"MAX_IDLE_TIME_BEFORE_CLOSE": 1})}
            process = Spiders(zygotes(version), tmp_path, valkey.url, spiders, **settings)
            log = stack.enter_context(process).finish()
            assert [item["url"] for item in items(client, f"{crawl}:items")] == [site.at("/b")]
            assert sorted(site.visits.paths) == ["/b", "/missing"]
            assert "Traceback" not in log, log
            return log

        yield run


@both_versions
def test_a_fed_spider_without_the_addon_names_it(fed, version):
    log = fed(version, ADDONS={})
    assert log.count(" WARNING: ") == log.count(WARNING) == 1, log
    assert f"{ADD}\n" in log


@both_versions
def test_a_fed_spider_with_another_scheduler_names_the_setting(fed, version):
    log = fed(version, SCHEDULER=SCRAPYS)
    assert log.count(WARNING) == 1, log
    assert f"is {SCRAPYS}, {WARNING}" in log
    assert f"To use Silkline's scheduler, {REMOVE}\n" in log


@both_versions
def test_without_the_addon_and_with_another_scheduler_both_are_named(fed, version):
    log = fed(version, ADDONS={}, SCHEDULER=SCRAPYS)
    assert log.count(WARNING) == 1, log
    assert f"{ADD} and {REMOVE}\n" in log


def test_a_scheduler_that_derives_from_that_of_scrapy_redis_is_named(fed):
    derived = "tests.scrapy.spiders.foreign.Bloom"
    filter_ = {"DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter"}
    log = fed(BOTH, SCHEDULER=derived, **filter_)
    assert log.count(WARNING) == 1, log
    assert f"is {derived}, {WARNING}" in log
    assert f"To use Silkline's scheduler, remove SCHEDULER = {derived!r}\n" in log
    assert "'bloom/asked': 2" in log


def test_any_spider_with_the_addon_and_another_scheduler_names_the_setting(program, out):
    process = program("alone", SCHEDULER=SCRAPYS, DUPEFILTER_CLASS="scrapy.dupefilters.RFPDupeFilter")
    assert process.log.count(WARNING) == 1
    assert {fact["url"] for fact in lines(out)} == {"/", "/a?x=1", "/a?x=2", "/b", "/c"}
