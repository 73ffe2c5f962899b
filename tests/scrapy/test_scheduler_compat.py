"""What code of a scrapy-redis project may name is there, does what it did, or says why it cannot."""

from __future__ import annotations

import importlib
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest
import scrapy
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from silkline import SyncFrontier
from silkline.errors import ConfigError, RequestError, SilklineError
from silkline.scrapy import RedisStatsCollector, RFPDupeFilter, Scheduler, picklecompat
from silkline.scrapy.convert.settings import PluginOptions
from silkline.scrapy.queue import FifoQueue
from tests.scrapy.conftest import both_versions
from tests.scrapy.processes import lines

NAMES = {
    "connection": "get_redis get_redis_from_settings from_settings SETTINGS_PARAMS_MAP",
    "defaults": "DUPEFILTER_KEY PIPELINE_KEY STATS_KEY REDIS_CLS REDIS_ENCODING REDIS_PARAMS REDIS_CONCURRENT_REQUESTS"
    " SCHEDULER_QUEUE_KEY SCHEDULER_QUEUE_CLASS SCHEDULER_DUPEFILTER_KEY SCHEDULER_DUPEFILTER_CLASS SCHEDULER_PERSIST"
    " START_URLS_KEY START_URLS_AS_SET START_URLS_AS_ZSET MAX_IDLE_TIME",
    "dupefilter": "RFPDupeFilter",
    "pipelines": "RedisPipeline default_serialize",
    "picklecompat": "loads dumps",
    "queue": "Base PriorityQueue FifoQueue LifoQueue SpiderPriorityQueue SpiderQueue SpiderStack",
    "scheduler": "Scheduler",
    "spiders": "RedisSpider RedisCrawlSpider RedisMixin",
    "stats": "RedisStatsCollector",
    "utils": "TextColor bytes_to_str is_dict convert_bytes_to_str",
}
METHODS = {
    "dupefilter.RFPDupeFilter": "from_settings from_crawler from_spider request_seen request_fingerprint close clear log"
    " server",
    "pipelines.RedisPipeline": "from_settings from_crawler process_item _process_item item_key",
    "queue.PriorityQueue": "__len__ push pop clear",
    "scheduler.Scheduler": "from_settings from_crawler open close flush enqueue_request next_request has_pending_requests"
    " __len__ server persist flush_on_start queue_key queue_cls dupefilter_key dupefilter_cls idle_before_close serializer",
    "spiders.RedisMixin": "redis_key redis_batch_size redis_encoding server spider_idle_start_time max_idle_time"
    " start_requests setup_redis pop_list_queue pop_priority_queue next_requests make_request_from_data"
    " schedule_next_requests spider_idle",
    "stats.RedisStatsCollector": "_get_key from_crawler from_spider get_value get_stats set_value set_stats inc_value"
    " max_value min_value clear_stats open_spider close_spider server spider_name",
}


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_there(module):
    found = importlib.import_module(f"silkline.scrapy.{module}")
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("path", METHODS)
def test_every_method_is_there(path):
    module, _, cls = path.partition(".")
    known = dir(getattr(importlib.import_module(f"silkline.scrapy.{module}"), cls))
    assert [name for name in METHODS[path].split() if name not in known] == []


class Books(scrapy.Spider):
    name = "books"


def crawler_of(spider=Books, **settings):
    return Crawler(spider, {"REDIS_URL": "redis://localhost:1", **settings})


def test_a_scheduler_reports_what_its_settings_say():
    crawler = crawler_of(SCHEDULER_PERSIST=True, SCHEDULER_IDLE_BEFORE_CLOSE=3)
    crawler.stats = RedisStatsCollector(crawler)
    scheduler = Scheduler.from_crawler(crawler)
    assert (scheduler.persist, scheduler.flush_on_start, scheduler.idle_before_close) == (True, False, 3)
    assert (scheduler.queue_key, scheduler.dupefilter_key) == ("%(spider)s:requests", "%(spider)s:dupefilter")
    assert scheduler.queue_cls.endswith("PriorityQueue")
    assert scheduler.server.connection_pool.connection_kwargs["port"] == 1
    with pytest.raises(ConfigError, match=r"Scheduler\.from_settings is not supported"):
        Scheduler.from_settings(Settings())


def test_a_scheduler_opens_only_in_a_running_crawl():
    crawler = crawler_of()
    crawler.stats = RedisStatsCollector(crawler)
    with pytest.raises(ConfigError, match=r"opens only in a running crawl.*silkline\.SyncFrontier"):
        Scheduler.from_crawler(crawler).open(Books())


def test_values_are_stored_without_pickle_and_plain_pickles_are_read():
    value = {"url": "https://a.example/", "body": b"", "pair": (1, 2), "when": datetime(2026, 1, 2, tzinfo=UTC)}
    assert picklecompat.loads(picklecompat.dumps(value)) == value
    assert picklecompat.loads(pickle.dumps(value, -1)) == value
    with pytest.raises(RequestError, match=r"value\['x'\]: a builtins.object cannot be stored"):
        picklecompat.dumps({"x": object()})
    with pytest.raises(RequestError, match="calls"):
        picklecompat.loads(pickle.dumps(Path("x"), -1))


class OwnOrder(FifoQueue):
    def push(self, request): ...


def test_a_queue_with_methods_of_its_own_is_refused_for_nobody_would_call_them():
    with pytest.raises(ConfigError, match="it overrides push, which Silkline does not call"):
        PluginOptions.read(Settings({"SCHEDULER_QUEUE_CLASS": OwnOrder}), Books())


class OwnKey(FifoQueue):
    key = "shared:%(spider)s:requests"


class ComputedKey(FifoQueue):
    @property
    def key(self):
        return "shared:requests"


class OwnConstructor(FifoQueue):
    def __init__(self, server, spider, key, serializer=None):
        super().__init__(server, spider, "shared:requests", serializer)


def read_queue(queue, **settings):
    return PluginOptions.read(Settings({"SCHEDULER_QUEUE_CLASS": queue, **settings}), Books())


def test_the_key_of_a_queue_class_names_the_crawl():
    expected = read_queue(FifoQueue, SCHEDULER_QUEUE_KEY="shared:books:requests").crawl
    assert expected.startswith("shared-books-")
    assert read_queue(OwnKey).crawl == expected
    assert read_queue(OwnKey).queue_key == "shared:books:requests"
    assert read_queue(ComputedKey, SILKLINE_CRAWL="other").queue_key == "books:requests"
    assert read_queue(OwnKey, SCHEDULER_QUEUE_KEY="shared:books:requests").crawl == expected
    assert read_queue(OwnKey, SILKLINE_CRAWL="other").crawl == "other"


def test_a_key_of_a_queue_class_that_cannot_name_the_crawl_is_refused():
    with pytest.raises(
        ConfigError, match="its key is a property, and Silkline names the crawl before there is a queue"
    ):
        read_queue(ComputedKey)
    with pytest.raises(
        ConfigError, match="overrides __init__, which Silkline does not call with a server, a spider and a key"
    ):
        read_queue(OwnConstructor)
    with pytest.raises(
        ConfigError, match=r"SCHEDULER_QUEUE_KEY is 'other:requests', but the queue class .* keep one of them"
    ):
        read_queue(OwnKey, SCHEDULER_QUEUE_KEY="other:requests")
    with pytest.raises(ConfigError, match=r"is not a valid pattern; it may contain %\(spider\)s"):
        read_queue(type("Odd", (FifoQueue,), {"key": "%(name)s:requests"}))


def test_a_dupefilter_works_without_a_scheduler_as_it_did(valkey, crawl):
    settings = Settings({"REDIS_URL": valkey.url, "SCHEDULER_DUPEFILTER_KEY": "%(spider)s:" + crawl})
    dupefilter = RFPDupeFilter.from_settings(settings)
    request = scrapy.Request("https://a.example/")
    try:
        assert [dupefilter.request_seen(request) for _ in range(2)] == [False, True]
    finally:
        dupefilter.close("finished")
    assert not dupefilter.server.exists(dupefilter.key)
    with pytest.raises(ConfigError, match="needs a server"):
        RFPDupeFilter().request_seen(request)


def test_the_key_of_a_stats_hash_is_that_of_the_spider():
    stats = RedisStatsCollector(crawler_of())
    assert (stats.spider_name, stats._get_key()) == ("books", "books:stats")


@both_versions
def test_the_queue_and_the_filter_of_a_running_spider_do_or_say(program, out, version, valkey, crawl):
    program("curious", version, SCHEDULER_PERSIST=True, DOWNLOAD_DELAY=1)  # so that nothing is claimed while it asks
    facts = {fact["asked"]: fact["answer"] for fact in lines(out)}
    assert facts["len"] == facts["len of the queue"] == 2
    assert "leased until its page is processed" in facts["pop"]
    assert "a queue cannot be cleared alone" in facts["clear"]
    assert "it is part of the crawl" in facts["df.clear"]
    assert "the seen filter is in the frontier" in facts["df.request_seen"]
    assert "cannot remove a crawl while its spider is open" in facts["flush"]
    assert facts["pushed"] == 3  # it was seen, and pushed all the same
    assert facts["len at the end"] == 0
    assert facts["flushed"] is None
    with pytest.raises(SilklineError, match="there is no crawl"):
        SyncFrontier.open(valkey.url, crawl=f"{crawl}-one", create=False)


@both_versions
def test_a_filter_that_remembers_in_redis_forgets_with_the_crawl(program, out, version, valkey, crawl):
    """As bloom filters do that override request_seen: without it, the next run would find nothing new."""
    settings = {"DUPEFILTER_CLASS": "tests.scrapy.programs.OwnSet"}
    for times in (1, 2):
        program("alone", version, **settings)
        assert len(lines(out)) == times * 7  # the start page is not filtered, and b#top is another
    with valkey.client() as client:
        assert not client.exists(f"{crawl}-one:dupefilter")
        program("alone", version, **settings, SCHEDULER_PERSIST=True)
        assert client.scard(f"{crawl}-one:dupefilter") == 6
        program("alone", version, **settings, SCHEDULER_PERSIST=True, SCHEDULER_FLUSH_ON_START=True)
        assert len(lines(out)) == 4 * 7
        client.delete(f"{crawl}-one:dupefilter")
