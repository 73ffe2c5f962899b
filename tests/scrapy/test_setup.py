"""How a spider that is fed from Redis reads its settings, and what it says to nonsense."""

from __future__ import annotations

import pytest
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from silkline.scrapy import Addon, RedisCrawlSpider, RedisSpider, get_redis, get_redis_from_settings
from silkline.scrapy.utils import TextColor, bytes_to_str, convert_bytes_to_str, is_dict

URL = {"REDIS_URL": "redis://localhost:1/5"}


class Shop(RedisSpider):
    name = "shop"


class Rules(RedisCrawlSpider):
    name = "rules"


def make(cls=Shop, settings=(), **arguments):
    return cls.from_crawler(Crawler(cls, {**URL, **dict(settings)}), **arguments)


def test_what_holds_when_nothing_is_said():
    for cls, key in ((Shop, "shop:start_urls"), (Rules, "rules:start_urls")):
        spider = make(cls)
        assert (spider.redis_key, spider.redis_batch_size, spider.redis_encoding) == (key, 16, "utf-8")
        assert (spider.max_idle_time, spider.redis_key_check_interval) == (0, 0)
        assert spider.fetch_data == spider.pop_list_queue
        assert spider.count_size == spider.server.llen


def test_arguments_and_settings_are_read():
    settings = {
        "REDIS_START_URLS_KEY": "%(name)s:todo",
        "CONCURRENT_REQUESTS": 5,
        "REDIS_ENCODING": "latin-1",
        "MAX_IDLE_TIME_BEFORE_CLOSE": "7",
        "REDIS_KEY_CHECK_INTERVAL": 3,
        "REDIS_START_URLS_AS_SET": True,
        "REDIS_START_URLS_AS_ZSET": True,
    }
    spider = make(settings=settings)
    assert (spider.redis_key, spider.redis_batch_size, spider.redis_encoding) == ("shop:todo", 5, "latin-1")
    assert (spider.max_idle_time, spider.redis_key_check_interval) == (7, 3)
    assert (spider.fetch_data, spider.count_size) == (spider.server.spop, spider.server.scard)
    spider = make(settings=settings, redis_key="mine:%(name)s", redis_batch_size="9", max_idle_time="2")
    assert (spider.redis_key, spider.redis_batch_size, spider.max_idle_time) == ("mine:shop", 9, 2)
    assert make(settings={"REDIS_START_URLS_AS_ZSET": True}).count_size.__name__ == "zcard"


def test_several_keys_each_once_in_their_order():
    spider = make(redis_key=["a:%(name)s", " b ", "a:shop"])
    assert (spider.redis_key, spider._redis_keys) == ("a:shop", ["a:shop", "b"])
    assert spider._is_multi_key_mode()


def test_setting_up_twice_is_setting_up_once():
    spider = make()
    server = spider.server
    spider.setup_redis(spider.crawler)
    assert spider.server is server


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"redis_key": ""}, "redis_key must not be empty"),
        ({"redis_key": ["a", " "]}, "redis_key must not be empty"),
        ({"redis_key": []}, "redis_key list is empty after normalization"),
        ({"redis_batch_size": "x"}, "redis_batch_size must be an integer"),
        ({"max_idle_time": "x"}, "max_idle_time must be an integer"),
        ({"redis_key_check_interval": "x"}, "redis_key_check_interval must be an integer or None"),
    ],
)
def test_nonsense_is_refused_in_the_words_of_scrapy_redis(arguments, complaint):
    with pytest.raises(ValueError, match=f"^{complaint}$"):
        make(**arguments)


def test_a_spider_without_a_crawler_cannot_be_set_up():
    with pytest.raises(ValueError, match=r"^crawler is required$"):
        Shop().setup_redis()


def test_a_client_is_made_of_the_settings():
    settings = Settings({
        "REDIS_PARAMS": {"db": 1, "password": "p", "socket_timeout": 3, "host": "a"},
        "REDIS_HOST": "b",
        "REDIS_DB": 0,
        "REDIS_DECODE_RESPONSES": True,
        "REDIS_MAX_CONNECTIONS": 7,
    })  # fmt: skip
    pool = get_redis_from_settings(settings).connection_pool
    assert pool.max_connections == 7
    told = {"host": "b", "db": 1, "password": "p", "socket_timeout": 3, "decode_responses": True}
    assert told.items() <= pool.connection_kwargs.items()
    assert get_redis(url="redis://h:9/2", encoding="latin-1").connection_pool.connection_kwargs["port"] == 9
    own = get_redis_from_settings(Settings({"REDIS_PARAMS": {"redis_cls": "collections.UserDict"}}))
    assert type(own).__name__ == "UserDict"


@pytest.mark.parametrize(
    "settings",
    [
        {"SCHEDULER": "scrapy_redis.scheduler.Scheduler"},
        {"ITEM_PIPELINES": {"project.pipelines.Check": 1, "scrapy_redis.pipelines.RedisPipeline": 300}},
    ],
)
def test_a_script_that_reads_the_settings_of_a_scrapy_redis_project_uses_the_server_of_its_spiders(settings):
    """The add-on does not change the settings of a script."""
    told = get_redis_from_settings(Settings(settings)).connection_pool.connection_kwargs
    assert (told["host"], told["port"]) == ("localhost", 6379)


@pytest.mark.parametrize(
    "settings",
    [{}, {"ADDONS": {"other.Addon": 1}}, {"ADDONS": {Addon: 1}, "SCHEDULER": "scrapy_redis.scheduler.Scheduler"}],
)
def test_settings_without_silkline_mean_the_server_of_scrapy_redis(settings):
    told = get_redis_from_settings(Settings(settings)).connection_pool.connection_kwargs
    assert (told["host"], told["port"]) == ("localhost", 6379)


def test_a_script_of_a_project_of_silkline_uses_the_embedded_server_of_its_spiders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for settings in (
        {"ADDONS": {"silkline.scrapy.Addon": 100}}, {"ADDONS": {Addon: 100}}, {"SCHEDULER": "silkline.scrapy.Scheduler"}
    ):  # fmt: skip
        assert "path" in get_redis_from_settings(Settings(settings)).connection_pool.connection_kwargs
    assert (tmp_path / ".silkline").is_dir()


def test_small_things_are_there():
    assert TextColor.ENDC == "\033[0m"
    assert bytes_to_str("ä".encode()) == bytes_to_str("ä") == bytes_to_str(b"\xe4", "latin-1") == "ä"
    assert [is_dict(text) for text in ('{"a": 1}', "[1]", "7", "http://e.com", "")] == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert convert_bytes_to_str({b"a": (b"b", 1)}) == {"a": ("b", 1)}
