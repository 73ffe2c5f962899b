"""Settings of scrapy-redis mean here what they meant there; nonsense is refused in a sentence."""

from __future__ import annotations

import pytest
import scrapy
from redis.backoff import NoBackoff
from redis.retry import Retry
from scrapy.settings import BaseSettings, Settings

from silkline.core.politeness import MAX_CONCURRENCY, Politeness
from silkline.errors import ConfigError
from silkline.scrapy import RedisSpider, connection
from silkline.scrapy.addon import Addon
from silkline.scrapy.convert.settings import NO_LIMITS, PluginOptions, server_url, warn_of_unused_params
from silkline.scrapy.convert.slots import queue_name
from silkline.scrapy.dupefilter import RFPDupeFilter


class Books(scrapy.Spider):
    name = "books"


def read(spider=None, **settings):
    return PluginOptions.read(Settings(settings), spider or Books())


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, None),
        ({"REDIS_URL": "redis://r:1/2"}, "redis://r:1/2"),
        ({"REDIS_HOST": "r"}, "redis://r:6379/0"),
        ({"REDIS_PORT": 7000, "REDIS_DB": 3}, "redis://localhost:7000/3"),
        ({"REDIS_PARAMS": {"host": "r", "password": "a/b@c", "ssl": True}}, "rediss://:a%2Fb%40c@r:6379/0"),
        ({"REDIS_HOST": "goes-before", "REDIS_PARAMS": {"host": "r", "socket_timeout": 3}},
         "redis://goes-before:6379/0?socket_timeout=3"),
        ({"REDIS_HOST": "r", "REDIS_USERNAME": "u", "REDIS_PASSWORD": "p:"}, "redis://u:p%3A@r:6379/0"),
        ({"REDIS_URL": "redis://r:1/2", "REDIS_PASSWORD": "p"}, "redis://:p@r:1/2"),
        ({"REDIS_URL": "redis://u:q@r:1", "REDIS_PASSWORD": "p"}, "redis://u:q@r:1"),
        ({"REDIS_PARAMS": {"unix_socket_path": "/run/r.sock", "db": 2}}, "unix:///run/r.sock?db=2"),
        ({"REDIS_URL": "redis://r:1", "REDIS_PARAMS": {"redis_cls": "redis.cluster.RedisCluster"}}, "redis+cluster://r:1"),
    ],
)  # fmt: skip
def test_the_server_is_named_in_many_ways(settings, url):
    assert read(**settings).url == url


def test_options_of_redis_py_that_change_neither_server_nor_login_are_ignored_with_one_warning(caplog):
    harmless = {"retry": Retry(NoBackoff(), 3), "retry_on_error": [TimeoutError], "single_connection_client": True}
    silent = {"decode_responses": True, "ssl_ca_certs": None, "socket_timeout": None}
    settings = Settings({"REDIS_PARAMS": {"host": "r", **harmless, **silent}})
    assert server_url(settings) == "redis://r:6379/0"
    warn_of_unused_params(settings)
    [line] = caplog.messages
    assert "ignores retry, retry_on_error, single_connection_client, for" in line
    warn_of_unused_params(Settings({"REDIS_PARAMS": {"host": "r", **silent}}))
    assert len(caplog.messages) == 1


def test_a_crawl_is_called_as_its_spider_or_as_its_queue():
    assert read().crawl == "books"
    assert read(SCHEDULER_QUEUE_KEY="shared:requests").crawl == "shared"
    assert read(SILKLINE_CRAWL="%(spider)s-2026").crawl == "books-2026"
    odd, other = read(Books(name="my books")).crawl, read(Books(name="my/books")).crawl
    assert odd.startswith("my-books-")
    assert odd != other


def test_politeness_is_the_fleets_unless_it_is_switched_off():
    polite = {"DOWNLOAD_DELAY": "0.5", "CONCURRENT_REQUESTS_PER_DOMAIN": 3}
    assert read(**polite).politeness == Politeness(delay=0.5, concurrency=3)
    assert read(**polite, SILKLINE_POLITENESS_CLUSTER_WIDE=False).politeness == NO_LIMITS


def test_the_limits_of_slots_are_the_fleets_too():
    slots = {"a.example": {"delay": "2", "concurrency": 1, "randomize_delay": False}, "Proxy #1": {"concurrency": 0}}
    options = read(DOWNLOAD_SLOTS=slots)
    assert options.slots == {
        "a.example": {"delay": 2.0, "concurrency": 1},
        queue_name("Proxy #1"): {"concurrency": MAX_CONCURRENCY},
    }
    assert read(DOWNLOAD_SLOTS=slots, SILKLINE_POLITENESS_CLUSTER_WIDE=False).slots == {}


def test_the_queue_class_chooses_the_order():
    ours = "silkline.scrapy.queue."
    chosen = [read(SCHEDULER_QUEUE_CLASS=ours + name) for name in ("SpiderPriorityQueue", "SpiderQueue", "SpiderStack")]
    assert [(options.order, options.by_priority) for options in chosen] == [
        ("fifo", True),
        ("fifo", False),
        ("lifo", False),
    ]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"SCHEDULER_PERSIST": "maybe"}, "SCHEDULER_PERSIST must be True or False"),
        ({"MAX_IDLE_TIME_BEFORE_CLOSE": "soon"}, "MAX_IDLE_TIME_BEFORE_CLOSE must be a number"),
        ({"CONCURRENT_REQUESTS": -1}, "CONCURRENT_REQUESTS must be a whole number"),
        ({"SCHEDULER_QUEUE_KEY": "%(name)s"}, r"is not a valid pattern; it may contain %\(spider\)s"),
        ({"SCHEDULER_QUEUE_CLASS": "queue.Queue"}, "the frontier is the queue"),
        ({"SCHEDULER_QUEUE_CLASS": "no.such"}, "SCHEDULER_QUEUE_CLASS='no.such' cannot be imported"),
        ({"REDIS_PARAMS": {"host": "r", "wings": 2}}, "REDIS_PARAMS has 'wings'"),
        ({"REDIS_PARAMS": {"host": "r", "credential_provider": object()}}, "REDIS_PARAMS has 'credential_provider'"),
        ({"REDIS_PARAMS": {"host": "r", "connection_class": dict}}, "has 'connection_class'.* may change the server or the login"),
        ({"REDIS_PARAMS": {"host": "r", "redis_connect_func": print}}, "REDIS_PARAMS has 'redis_connect_func'"),
        ({"REDIS_PARAMS": {"host": "r", "ssl_ocsp_context": object()}}, "REDIS_PARAMS has 'ssl_ocsp_context'"),
        ({"REDIS_PARAMS": 5}, "REDIS_PARAMS must be a dict"),
        ({"SILKLINE_LEASE": 0}, "SILKLINE_LEASE must be a number of at least 1"),
        ({"DOWNLOAD_DELAY": 100_000}, "delay must be from 0"),
        ({"SILKLINE_CRAWL": "a b"}, "a crawl's name"),
        ({"DOWNLOAD_SLOTS": {"a": {"delay": -1}}}, r"DOWNLOAD_SLOTS\['a'\] cannot be used: delay must be"),
        ({"DOWNLOAD_SLOTS": {"a": 3}}, r"DOWNLOAD_SLOTS\['a'\] cannot be used"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_a_sentence(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        read(**settings)


def test_the_add_on_maps_what_a_project_says_and_keeps_its_priorities():
    settings = Settings()
    settings.set("SCHEDULER", "scrapy_redis.scheduler.Scheduler", "project")
    settings.set("DUPEFILTER_CLASS", "scrapy_redis.dupefilter.RFPDupeFilter", "spider")
    settings.set("STATS_CLASS", "scrapy_redis.stats.RedisStatsCollector", "cmdline")
    pipelines = {"scrapy_redis.pipelines.RedisPipeline": 400, "my.Pipeline": 300}
    settings.set("ITEM_PIPELINES", pipelines, "project")
    Addon().update_settings(settings)
    assert settings["SCHEDULER"] == "silkline.scrapy.scheduler.Scheduler"
    assert settings["DUPEFILTER_CLASS"] == "silkline.scrapy.dupefilter.RFPDupeFilter"
    assert settings["STATS_CLASS"] == "silkline.scrapy.stats.RedisStatsCollector"
    assert [settings.getpriority(name) for name in ("SCHEDULER", "DUPEFILTER_CLASS", "STATS_CLASS")] == [20, 30, 40]
    assert dict(settings["ITEM_PIPELINES"]) == {"silkline.scrapy.pipelines.RedisPipeline": 400, "my.Pipeline": 300}


def test_the_add_on_alone_is_enough_and_a_projects_own_choice_stays():
    settings = Settings({"SPIDER_MIDDLEWARES": {"silkline.scrapy.middlewares.SpiderMiddleware": 60}})
    Addon().update_settings(settings)
    assert settings["SCHEDULER"] == "silkline.scrapy.Scheduler"
    assert settings["SPIDER_MIDDLEWARES"]["silkline.scrapy.middlewares.SpiderMiddleware"] == 60
    assert "silkline.scrapy.middlewares.DownloaderMiddleware" in settings["DOWNLOADER_MIDDLEWARES"]
    other = Settings({"SCHEDULER": "my.Scheduler"})
    Addon().update_settings(other)
    assert other["SCHEDULER"] == "my.Scheduler"


def test_the_downloaders_own_randomness_is_off_while_the_frontier_keeps_the_pace():
    def jitter(settings):
        Addon().update_settings(settings)
        return settings.get("DOWNLOAD_DELAY_JITTER")

    assert jitter(Settings({"DOWNLOAD_DELAY": 1})) == 0
    assert jitter(Settings({"DOWNLOAD_DELAY": 1, "SILKLINE_POLITENESS_CLUSTER_WIDE": False})) == 0.5


def test_fingerprints_are_those_of_scrapy_redis():
    found = RFPDupeFilter.from_settings(BaseSettings()).request_fingerprint(scrapy.Request("http://example.com"))
    assert found == "db723d399cb551c9ef8eca77ed8dbed4a0522b4f"


OF_SCRAPY_REDIS = {"SCHEDULER": "scrapy_redis.scheduler.Scheduler"}


class Plain(scrapy.Spider):
    name = "plain"


class Fed(RedisSpider):
    name = "fed"


@pytest.mark.parametrize(
    ("spider", "settings", "url"),
    [
        (Plain, {}, None),
        (Plain, OF_SCRAPY_REDIS, "redis://localhost:6379/0"),
        (Plain, {"ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 1}}, "redis://localhost:6379/0"),
        (Fed, {}, "redis://localhost:6379/0"),
        (Fed, {"REDIS_PARAMS": {"password": "p"}}, "redis://:p@localhost:6379/0"),
        (Fed, OF_SCRAPY_REDIS | {"REDIS_URL": "redis://r:1"}, "redis://r:1"),
        (Fed, {"REDIS_PARAMS": {"host": "r"}}, "redis://r:6379/0"),
        (Fed, {"REDIS_URL": "embedded:here"}, "embedded:here"),
    ],
)
def test_projects_of_scrapy_redis_and_fed_spiders_use_the_server_of_this_machine(spider, settings, url):
    found = Settings(settings)
    spider.update_settings(found)
    Addon().update_settings(found)
    assert server_url(found) == url
    if url and url.startswith("redis"):
        assert connection.from_settings(found).connection_pool.connection_kwargs["host"] in url
