"""What every public name of scrapy-redis does: ``alias_checks.py`` runs these checks on the `scrapy_redis` of its path.

`test_aliases` runs them with scrapy-redis itself, which shows that they are right, and with Silkline in its place.
"""

import json
import os
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from unittest import mock

import redis
import scrapy
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.exceptions import DontCloseSpider
from scrapy.settings import Settings
from scrapy.statscollectors import StatsCollector

URL = os.environ["REDIS_URL"]
SERVER = redis.Redis.from_url(URL)
REQUEST = scrapy.Request("http://example.com")

if alias := os.environ.get("ALIAS"):
    sys.path.insert(0, alias)

import scrapy_redis  # noqa: E402
from scrapy_redis import connection, defaults, picklecompat, utils  # noqa: E402
from scrapy_redis.dupefilter import RFPDupeFilter  # noqa: E402
from scrapy_redis.pipelines import RedisPipeline, default_serialize  # noqa: E402
from scrapy_redis.queue import (  # noqa: E402
    Base,
    FifoQueue,
    LifoQueue,
    PriorityQueue,
    SpiderPriorityQueue,
    SpiderQueue,
    SpiderStack,
)
from scrapy_redis.scheduler import Scheduler  # noqa: E402
from scrapy_redis.spiders import RedisCrawlSpider, RedisMixin, RedisSpider  # noqa: E402
from scrapy_redis.stats import RedisStatsCollector  # noqa: E402


class Shop(scrapy.Spider):
    name = "shop"

    def parse_item(self, response): ...


class Fed(RedisSpider):
    name = "fed"


class Rules(RedisCrawlSpider):
    name = "rules"


def crawler_of(spider=Shop, **settings):
    filter_ = {"DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter"}
    crawler = Crawler(spider, {"REDIS_URL": URL, **filter_, **settings})
    crawler.stats = StatsCollector(crawler)
    return crawler


def fed(cls=Fed, settings=(), **arguments):
    """A fed spider whose engine only remembers what it should crawl."""
    crawler = crawler_of(cls, **dict(settings))
    spider = cls.from_crawler(crawler, **arguments)
    crawler.spider, crawler.engine = spider, SimpleNamespace(crawl=mock.Mock(), spider=spider)
    return spider


def urls(requests):
    return [request.url for request in requests]


def raises(kind, act):
    try:
        act()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was not raised")


# ── the package ──


def check_metadata():
    assert all(isinstance(one, str) and one for one in (scrapy_redis.__author__, scrapy_redis.__email__))
    assert scrapy_redis.__version__


# ── connection and defaults ──


def check_get_redis():
    assert scrapy_redis.get_redis is connection.get_redis
    assert scrapy_redis.get_redis(url=URL).ping()
    made = connection.get_redis(host="h", port=7, db=3).connection_pool.connection_kwargs
    assert (made["host"], made["port"], made["db"]) == ("h", 7, 3)

    class Own(redis.Redis): ...

    assert type(connection.get_redis(redis_cls=Own, url=URL)) is Own


def check_get_redis_from_settings():
    assert scrapy_redis.get_redis_from_settings is connection.get_redis_from_settings is connection.from_settings
    settings = Settings(
        {"REDIS_HOST": "h", "REDIS_PORT": 7, "REDIS_PARAMS": {"host": "other", "db": 2, "socket_timeout": 4}}
    )
    made = connection.from_settings(settings).connection_pool.connection_kwargs
    assert (made["host"], made["port"], made["db"], made["socket_timeout"]) == ("h", 7, 2, 4)
    text = connection.from_settings(Settings({"REDIS_URL": URL, "REDIS_DECODE_RESPONSES": True}))
    text.set("text", "ä")
    assert text.get("text") == "ä"
    made = connection.from_settings(Settings()).connection_pool.connection_kwargs
    assert (made.get("host"), made.get("port")) in {("localhost", 6379), (None, None)}  # 0.9.1 leaves them to redis-py
    own = Settings({"REDIS_PARAMS": {"redis_cls": "redis.Redis", "host": "h"}})
    assert connection.from_settings(own).connection_pool.connection_kwargs["socket_connect_timeout"] == 30


def check_settings_params_map():
    pairs = {
        "REDIS_URL": "url",
        "REDIS_HOST": "host",
        "REDIS_PORT": "port",
        "REDIS_DB": "db",
        "REDIS_ENCODING": "encoding",
    }
    pairs["REDIS_DECODE_RESPONSES"] = "decode_responses"
    assert pairs.items() <= connection.SETTINGS_PARAMS_MAP.items()


def check_defaults():
    expected = {
        "DUPEFILTER_KEY": "dupefilter:%(timestamp)s",
        "PIPELINE_KEY": "%(spider)s:items",
        "STATS_KEY": "%(spider)s:stats",
        "REDIS_CLS": redis.Redis,
        "REDIS_ENCODING": "utf-8",
        "REDIS_CONCURRENT_REQUESTS": 16,
        "SCHEDULER_QUEUE_KEY": "%(spider)s:requests",
        "SCHEDULER_DUPEFILTER_KEY": "%(spider)s:dupefilter",
        "SCHEDULER_PERSIST": False,
        "START_URLS_KEY": "%(name)s:start_urls",
        "START_URLS_AS_SET": False,
        "START_URLS_AS_ZSET": False,
        "MAX_IDLE_TIME": 0,
    }
    assert {name: getattr(defaults, name) for name in expected} == expected
    assert defaults.REDIS_PARAMS["socket_timeout"] == 30
    assert defaults.SCHEDULER_QUEUE_CLASS.endswith(".queue.PriorityQueue")
    assert defaults.SCHEDULER_DUPEFILTER_CLASS.endswith(".dupefilter.RFPDupeFilter")


def check_a_patch_of_the_alias_is_used():
    with mock.patch("scrapy_redis.spiders.connection") as patched:
        spider = fed()
        assert spider.server is patched.from_settings.return_value
        patched.from_settings.assert_called_once_with(spider.crawler.settings)


# ── dupefilter ──


def check_dupefilter():
    filter_ = RFPDupeFilter(SERVER, "seen", debug=True)
    assert (filter_.server, filter_.key, filter_.debug, filter_.logdupes) == (SERVER, "seen", True, True)
    assert [filter_.request_seen(REQUEST) for _ in range(2)] == [False, True]
    assert not filter_.request_seen(scrapy.Request("http://example.com", method="POST"))
    assert SERVER.smembers("seen") >= {b"db723d399cb551c9ef8eca77ed8dbed4a0522b4f"}
    filter_.clear()
    assert not SERVER.exists("seen")
    filter_.request_seen(REQUEST)
    filter_.close("finished")
    assert not SERVER.exists("seen")


def check_fingerprints_of_the_dupefilter():
    filter_ = RFPDupeFilter(SERVER, "seen")
    of = filter_.request_fingerprint
    assert of(REQUEST) == "db723d399cb551c9ef8eca77ed8dbed4a0522b4f"
    assert of(scrapy.Request("http://a.example/?b=1&a=2#x")) == of(scrapy.Request("http://a.example/?a=2&b=1"))
    assert len({of(scrapy.Request("http://a.example/", body=body)) for body in (b"", b"1", b"2")}) == 3

    class Own(RFPDupeFilter):
        def request_fingerprint(self, request):
            return request.url

    own = Own(SERVER, "own")
    assert [own.request_seen(REQUEST) for _ in range(2)] == [False, True]
    assert SERVER.smembers("own") == {b"http://example.com"}


def check_dupefilter_from_settings_crawler_and_spider():
    settings = Settings({"REDIS_URL": URL, "DUPEFILTER_DEBUG": True})
    made = RFPDupeFilter.from_settings(settings)
    assert made.key.startswith("dupefilter:")
    assert made.debug is True
    assert not made.request_seen(REQUEST)
    assert SERVER.exists(made.key)
    crawler = crawler_of(SCHEDULER_DUPEFILTER_KEY="%(spider)s:known")
    crawler.request_fingerprinter = scrapy.utils.request.RequestFingerprinter(crawler)
    assert RFPDupeFilter.from_crawler(crawler).key.startswith("dupefilter:")
    assert RFPDupeFilter.from_spider(Shop.from_crawler(crawler)).key == "shop:known"


def check_log_of_the_dupefilter():
    for debug, times in ((False, 1), (True, 3)):
        filter_ = RFPDupeFilter(SERVER, "seen", debug)
        filter_.logger = mock.Mock()
        spider = SimpleNamespace(crawler=SimpleNamespace(stats=mock.Mock()))
        for _ in range(3):
            filter_.log(REQUEST, spider)
        assert filter_.logger.debug.call_count == times


# ── queues ──


def check_queues():
    orders = {FifoQueue: "abc", LifoQueue: "cba", PriorityQueue: "cab"}
    for cls, order in orders.items():
        spider = Shop()
        queue = cls(SERVER, spider, "%(spider)s:queue")
        assert (queue.key, queue.server, queue.spider, len(queue)) == ("shop:queue", SERVER, spider, 0)
        for page, priority in (("a", 0), ("b", -1), ("c", 5)):
            queue.push(
                scrapy.Request(f"http://x.example/{page}", spider.parse_item, meta={"p": page}, priority=priority)
            )
        assert len(queue) == 3
        found = [queue.pop(), queue.pop(timeout=1), queue.pop()]
        assert "".join(one.meta["p"] for one in found) == order
        assert [one.callback for one in found] == [spider.parse_item] * 3
        assert queue.pop() is None
        queue.push(REQUEST)
        queue.clear()
        assert (len(queue), SERVER.exists("shop:queue")) == (0, 0)


def check_old_names_of_queues():
    assert (SpiderQueue, SpiderStack, SpiderPriorityQueue) == (FifoQueue, LifoQueue, PriorityQueue)
    assert all(issubclass(cls, Base) for cls in (FifoQueue, LifoQueue, PriorityQueue))


def check_base_queue():
    serializer = SimpleNamespace(dumps=mock.Mock(side_effect=dict), loads=mock.Mock(side_effect=dict))
    queue = Base(SERVER, Shop(), "key", serializer=serializer)
    again = queue._decode_request(queue._encode_request(REQUEST.replace(meta={"a": (1, 2)})))
    assert (again.url, again.meta) == (REQUEST.url, {"a": (1, 2)})
    assert (serializer.dumps.call_count, serializer.loads.call_count) == (1, 1)
    raises(NotImplementedError, lambda: queue.push(REQUEST))
    raises(NotImplementedError, queue.pop)
    raises(NotImplementedError, queue.__len__)
    raises(TypeError, lambda: Base(SERVER, Shop(), "key", serializer=SimpleNamespace(dumps=dict)))
    raises(TypeError, lambda: Base(SERVER, Shop(), "key", serializer=SimpleNamespace(loads=dict)))


def check_picklecompat():
    value = {
        "url": "http://a.example/",
        "body": b"\xff",
        "meta": {"pair": (1, None), "when": datetime(2026, 1, 2, tzinfo=UTC)},
    }
    assert picklecompat.loads(picklecompat.dumps(value)) == value


# ── scheduler, in a crawl that is not running ──


def check_scheduler():
    given = {"SCHEDULER_PERSIST": True, "SCHEDULER_FLUSH_ON_START": True, "SCHEDULER_IDLE_BEFORE_CLOSE": 3}
    crawler = crawler_of(**given, SCHEDULER_QUEUE_KEY="%(spider)s:q", SCHEDULER_DUPEFILTER_KEY="%(spider)s:d")
    scheduler = Scheduler.from_crawler(crawler)
    assert (scheduler.persist, scheduler.flush_on_start, scheduler.idle_before_close) == (True, True, 3)
    assert (scheduler.queue_key, scheduler.dupefilter_key) == ("%(spider)s:q", "%(spider)s:d")
    assert scheduler.queue_cls.endswith(".queue.PriorityQueue")
    assert scheduler.dupefilter_cls == "scrapy_redis.dupefilter.RFPDupeFilter"
    assert scheduler.stats is crawler.stats
    assert scheduler.serializer is None
    assert scheduler.server.ping()
    scheduler.persist = False
    assert scheduler.persist is False


# ── a running crawl ──


class Pages(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<h1>{self.path}</h1>".encode())

    def log_message(self, *_): ...


class OwnScheduler(Scheduler):
    """Overrides what projects override."""

    enqueued, begun, opened = [], [], []

    def open(self, spider):
        self.opened.append(self)
        return super().open(spider)

    def enqueue_request(self, request):
        accepted = super().enqueue_request(request)
        self.enqueued.append((request.url[-3:], accepted))
        return accepted

    def next_request(self):
        request = super().next_request()
        if request is not None:
            self.begun.append(request.url[-3:])
        return request


class OwnPipeline(RedisPipeline):
    def process_item(self, item, spider):
        return super().process_item({**item, "by": spider.name}, spider)


class Crawled(scrapy.Spider):
    name = "crawled"
    asked = []

    async def start(self):
        yield scrapy.Request(self.site + "/_0", dont_filter=True)

    def parse(self, response):
        scheduler = OwnScheduler.opened[-1]
        links = [scrapy.Request(f"{self.site}/_{n}", callback=self.parse_page) for n in (1, 2, 3, 1)]
        accepted = [scheduler.enqueue_request(link) for link in links]
        self.asked.append((accepted, scheduler.has_pending_requests(), len(scheduler) >= 0))

    def parse_page(self, response):
        yield {"title": response.css("h1::text").get()}

    def closed(self, reason):
        scheduler = OwnScheduler.opened[-1]
        scheduler.flush()
        self.asked.append((reason, len(scheduler)))


def check_a_running_crawl_with_a_scheduler_and_a_pipeline_that_derive_from_those_of_scrapy_redis():
    """Crawls twice: without the flush in `closed`, the links would be known to the second crawl."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Crawled.site = f"http://127.0.0.1:{server.server_port}"
    settings = {"REDIS_URL": URL, "SCHEDULER_PERSIST": True, "TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "WARNING"}
    settings |= {"ADDONS": {"silkline.scrapy.Addon": 100}} if alias else {}
    settings |= {"SCHEDULER": OwnScheduler, "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter"}
    process = CrawlerProcess({**settings, "ITEM_PIPELINES": {OwnPipeline: 1}})
    process.crawl(Crawled).addCallback(lambda _: process.crawl(Crawled))
    process.start()
    server.shutdown()
    turn = [([True, True, True, False], True, True), ("finished", 0)]
    assert Crawled.asked == turn * 2, Crawled.asked
    assert sorted(OwnScheduler.enqueued) == sorted(
        [("/_0", True), ("/_1", True), ("/_2", True), ("/_3", True), ("/_1", False)] * 2
    )
    assert sorted(OwnScheduler.begun) == ["/_0", "/_0", "/_1", "/_1", "/_2", "/_2", "/_3", "/_3"]
    found = sorted((item["title"], item["by"]) for item in map(json.loads, SERVER.lrange("crawled:items", 0, -1)))
    assert found == [(f"/_{n}", "crawled") for n in (1, 1, 2, 2, 3, 3)]


# ── pipelines ──


class Item(scrapy.Item):
    name = scrapy.Field()


def check_pipeline():
    pipeline = RedisPipeline.from_crawler(crawler_of())
    item = Item(name="Lämp")
    assert pipeline._process_item(item, Shop()) is item
    assert json.loads(SERVER.lindex("shop:items", 0)) == {"name": "Lämp"}
    assert pipeline.item_key(item, Shop()) == "shop:items"
    assert json.loads(default_serialize({"at": datetime(2026, 1, 2, tzinfo=UTC)}))["at"].startswith("2026-01-02")


def check_pipeline_settings():
    settings = Settings(
        {"REDIS_URL": URL, "REDIS_ITEMS_KEY": "found:%(spider)s", "REDIS_ITEMS_SERIALIZER": "builtins.repr"}
    )
    RedisPipeline.from_settings(settings)._process_item({"a": 1}, Shop())
    assert SERVER.lrange("found:shop", 0, -1) == [b"{'a': 1}"]
    by_hand = RedisPipeline(SERVER, "by-hand", lambda item: b"x")
    by_hand._process_item({}, Shop())
    assert SERVER.lrange("by-hand", 0, -1) == [b"x"]


# ── spiders ──


def check_setup_redis():
    spider = fed()
    assert (spider.redis_key, spider.redis_batch_size, spider.redis_encoding) == ("fed:start_urls", 16, "utf-8")
    assert (spider.max_idle_time, spider.server.ping()) == (0, True)
    server = spider.server
    spider.setup_redis(spider.crawler)
    assert spider.server is server
    assert raises(ValueError, Fed().setup_redis) == "crawler is required"
    assert fed(Rules).redis_key == "rules:start_urls"
    assert issubclass(RedisSpider, RedisMixin)
    assert issubclass(RedisCrawlSpider, RedisMixin)


def check_spider_arguments_and_settings():
    settings = {"REDIS_START_URLS_KEY": "todo:%(name)s", "CONCURRENT_REQUESTS": 5, "REDIS_ENCODING": "latin-1"}
    spider = fed(settings={**settings, "MAX_IDLE_TIME_BEFORE_CLOSE": 7})
    assert (spider.redis_key, spider.redis_batch_size) == ("todo:fed", 5)
    assert (spider.redis_encoding, spider.max_idle_time) == ("latin-1", 7)
    spider = fed(redis_key="mine:%(name)s", redis_batch_size="9", max_idle_time="2")
    assert (spider.redis_key, spider.redis_batch_size, spider.max_idle_time) == ("mine:fed", 9, 2)
    wrong = {"redis_key": "", "redis_batch_size": "x", "max_idle_time": "x"}
    said = [raises(ValueError, lambda name=name, value=value: fed(**{name: value})) for name, value in wrong.items()]
    assert said == [
        "redis_key must not be empty",
        "redis_batch_size must be an integer",
        "max_idle_time must be an integer",
    ]


def check_make_request_from_data():
    spider = fed()
    plain = spider.make_request_from_data(b"http://a.example/x?y=1")
    assert (plain.url, plain.method, plain.dont_filter) == ("http://a.example/x?y=1", "GET", True)
    full = spider.make_request_from_data(json.dumps({"url": "http://a.example/", "meta": {"job": 1}}).encode())
    assert (full.meta, full.dont_filter, full.method) == ({"job": 1}, True, "GET")
    form = {"url": "http://a.example/", "method": "post", "k": "v"}
    post = spider.make_request_from_data(json.dumps(form).encode())
    assert (post.method, post.body) == ("POST", b"k=v")
    query = spider.make_request_from_data(b'{"url": "http://a.example/", "k": "v"}')
    assert query.url == "http://a.example/?k=v"


def check_next_requests():
    spider = fed(redis_batch_size=2)
    SERVER.rpush("fed:start_urls", *(f"http://a.example/{n}" for n in range(3)))
    assert urls(spider.next_requests()) == ["http://a.example/0", "http://a.example/1"]
    assert SERVER.llen("fed:start_urls") == spider.count_size(spider.redis_key) == 1
    assert urls(spider.start_requests()) == ["http://a.example/2"]
    assert list(spider.next_requests()) == []


def check_messages_in_a_set_and_in_a_sorted_set():
    spider = fed(settings={"REDIS_START_URLS_AS_SET": True})
    SERVER.sadd("fed:start_urls", "http://a.example/1", "http://a.example/2")
    assert spider.count_size(spider.redis_key) == 2
    assert sorted(urls(spider.next_requests())) == ["http://a.example/1", "http://a.example/2"]
    assert not SERVER.exists("fed:start_urls")
    spider = fed(settings={"REDIS_START_URLS_AS_ZSET": True}, redis_batch_size=2)
    SERVER.zadd("fed:start_urls", {f"http://a.example/{n}": n for n in range(3)})
    assert spider.count_size(spider.redis_key) == 3
    assert urls(spider.next_requests()) == ["http://a.example/2", "http://a.example/1"]
    assert spider.pop_priority_queue("fed:start_urls", 5) == [b"http://a.example/0"]
    SERVER.rpush("list", "a", "b", "c")
    assert spider.pop_list_queue("list", 2) == [b"a", b"b"]
    assert SERVER.lrange("list", 0, -1) == [b"c"]


def check_spider_idle():
    spider = fed(redis_batch_size=2)
    SERVER.rpush("fed:start_urls", *(f"http://a.example/{n}" for n in range(5)))
    raises(DontCloseSpider, spider.spider_idle)
    spider.schedule_next_requests()
    crawled = [call.args[0].url for call in spider.crawler.engine.crawl.call_args_list]
    assert crawled == [f"http://a.example/{n}" for n in range(4)]
    patient = fed(max_idle_time=5)
    SERVER.delete("fed:start_urls")
    patient.spider_idle_start_time = int(time.time())
    raises(DontCloseSpider, patient.spider_idle)
    patient.spider_idle_start_time = int(time.time()) - 6
    assert patient.spider_idle() is None


def check_a_spider_that_overrides_make_request_from_data():
    class Own(Fed):
        def make_request_from_data(self, data):
            return [scrapy.Request(f"http://a.example/{data.decode()}/{n}") for n in range(2)]

    spider = fed(Own)
    SERVER.rpush("fed:start_urls", "x", "y")
    assert urls(spider.next_requests()) == [f"http://a.example/{name}/{n}" for name in "xy" for n in range(2)]


# ── stats ──


def check_stats():
    crawler = crawler_of(SCHEDULER_PERSIST=True)
    stats = RedisStatsCollector.from_crawler(crawler)
    spider = crawler.spider = Shop.from_crawler(crawler)
    assert (stats._get_key(), stats._get_key(spider), stats.spider_name) == ("shop:stats", "shop:stats", "shop")
    stats.open_spider(spider)
    stats.inc_value("pages")
    stats.inc_value("pages", 4)
    stats.inc_value("from", 1, start=10)
    stats.set_value("value", 3)
    for value in (5, 2, 9):
        stats.max_value("most", value)
        stats.min_value("least", value)
    expected = {"pages": 5, "from": 11, "value": 3, "most": 9, "least": 2}
    assert {name: stats.get_value(name) for name in expected} == expected
    assert stats.get_value("nothing", 7) == 7
    assert set(stats.get_stats()) >= set(expected)
    stats.close_spider(spider, "finished")
    assert {name: int(value) for name, value in SERVER.hgetall("shop:stats").items()} == {
        name.encode(): value for name, value in expected.items()
    }
    assert stats.server.exists("shop:stats")


def check_cleared_stats():
    crawler = crawler_of(STATS_KEY="counts:%(spider)s")
    spider = crawler.spider = Shop.from_crawler(crawler)
    stats = RedisStatsCollector.from_spider(spider)
    stats.open_spider(spider)
    stats.set_stats({"a": 1, "b": 2})
    assert {name: int(value) for name, value in stats.get_stats().items()} == {"a": 1, "b": 2}
    stats.clear_stats()
    assert stats.get_stats() == {}
    stats.inc_value("a")
    stats.close_spider(spider, "finished")
    assert not SERVER.exists("counts:shop")  # without SCHEDULER_PERSIST


# ── utils ──


def check_utils():
    assert utils.bytes_to_str("ä".encode()) == utils.bytes_to_str("ä") == utils.bytes_to_str(b"\xe4", "latin-1") == "ä"
    assert [utils.is_dict(text) for text in ('{"a": 1}', "http://a.example", "")] == [True, False, False]
    assert utils.convert_bytes_to_str({b"a": b"b", b"n": 1}) == {"a": "b", "n": 1}
    assert (utils.TextColor.WARNING, utils.TextColor.ENDC) == ("\033[93m", "\033[0m")


CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")}


def main():
    results = {}
    for name, check in CHECKS.items():
        try:
            SERVER.flushdb()
            check()
        except Exception:  # noqa: BLE001 - the test shows it
            results[name] = traceback.format_exc()
        else:
            results[name] = ""
    SERVER.flushdb()
    with open(os.environ["OUT"], "w") as file:  # noqa: PTH123
        json.dump({"package": scrapy_redis.__name__, "results": results}, file)


if __name__ == "__main__":
    main()
