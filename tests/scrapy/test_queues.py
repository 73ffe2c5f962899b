"""Queues that a program creates itself, with a redis-py client and a key: no leases, no pickle."""

from __future__ import annotations

import json
import pickle
from datetime import date
from types import SimpleNamespace

import pytest
import scrapy
from scrapy.http import FormRequest

from silkline import SyncFrontier
from silkline.errors import RequestError
from silkline.frontier.user_keys.import_source import ImportSource
from silkline.scrapy import picklecompat
from silkline.scrapy.migrate.importing import ImportSummary, QueueImport
from silkline.scrapy.queue import (
    Base,
    FifoQueue,
    LifoQueue,
    PriorityQueue,
    SpiderPriorityQueue,
    SpiderQueue,
    SpiderStack,
)
from tests.scrapy.conftest import both_versions
from tests.scrapy.processes import lines

SITE = "https://shop.example"


class Product(scrapy.Item):
    name = scrapy.Field()


class Shop(scrapy.Spider):
    name = "shop"

    def parse_item(self, response): ...

    def failed(self, failure): ...


SPIDER = Shop()


@pytest.fixture
def server(valkey):
    with valkey.client() as client:
        yield client


@pytest.fixture
def make(server, crawl):
    """Creates queues whose key is named after the crawl."""
    keys = []

    def make_(cls, serializer=None):
        queue = cls(server, SPIDER, f"{crawl}:%(spider)s:requests", serializer)
        keys.append(queue.key)
        return queue

    yield make_
    server.delete(*keys)


def request(page, **fields):
    return scrapy.Request(f"{SITE}/{page}", **fields)


@pytest.mark.parametrize(
    ("cls", "order"),
    [
        (FifoQueue, ["a", "b", "c"]),
        (SpiderQueue, ["a", "b", "c"]),
        (LifoQueue, ["c", "b", "a"]),
        (SpiderStack, ["c", "b", "a"]),
        (PriorityQueue, ["c", "a", "b"]),
        (SpiderPriorityQueue, ["c", "a", "b"]),
    ],
)
def test_requests_come_back_in_the_order_of_the_queue(make, server, crawl, cls, order):
    queue = make(cls)
    assert queue.key == f"{crawl}:shop:requests"
    for page, priority in (("a", 0), ("b", -5), ("c", 7)):
        queue.push(request(page, priority=priority))
    assert len(queue) == 3
    found = [queue.pop(), queue.pop(timeout=1), queue.pop()]
    assert [one.url for one in found] == [f"{SITE}/{page}" for page in order]
    assert {one.url[-1]: one.priority for one in found} == {"a": 0, "b": -5, "c": 7}
    assert (queue.pop(), queue.pop(timeout=0.01), len(queue)) == (None, None, 0)
    queue.push(request("d"))
    queue.clear()
    assert (len(queue), server.exists(queue.key)) == (0, 0)


RICH = FormRequest(
    f"{SITE}/Form?b=1&a=2#top",
    formdata={"k": "ü"},
    callback=SPIDER.parse_item,
    errback=SPIDER.failed,
    headers={"X-Two": ["1", "2"], "Referer": f"{SITE}/"},
    cookies=[{"name": "n", "value": "v", "domain": "shop.example"}],
    meta={"item": Product(name="Lamp"), "day": date(2026, 1, 2), "pair": (1, b"\xff"), "depth": 3},
    cb_kwargs={"page": 4},
    priority=5000,
    dont_filter=True,
    flags=["f"],
)


@pytest.mark.parametrize("cls", [FifoQueue, LifoQueue, PriorityQueue])
def test_a_request_comes_back_as_it_was_without_pickle(make, server, cls):
    queue = make(cls)
    queue.push(RICH)
    stored = server.zrange(queue.key, 0, 0)[0] if cls is PriorityQueue else server.lindex(queue.key, 0)
    assert stored[:1] not in (b"\x80", b"{")
    again = queue.pop()
    assert type(again) is FormRequest
    assert again.to_dict(spider=SPIDER) == RICH.to_dict(spider=SPIDER)
    assert type(again.meta["item"]) is Product


def test_what_scrapy_redis_has_stored_is_read_without_pickle(make, server):
    fifo, by_priority = make(FifoQueue), make(PriorityQueue)
    server.lpush(fifo.key, pickle.dumps(RICH.to_dict(spider=SPIDER), -1))
    assert fifo.pop().to_dict(spider=SPIDER) == RICH.to_dict(spider=SPIDER)
    server.zadd(by_priority.key, {pickle.dumps(request("a", priority=9).to_dict(spider=SPIDER), -1): -9})
    assert (found := by_priority.pop()).priority == 9, found
    server.lpush(fifo.key, json.dumps({"url": f"{SITE}/json", "callback": "parse_item"}))
    assert fifo.pop().callback == SPIDER.parse_item


class Evil:
    def __reduce__(self):
        return print, ("this was run",)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (pickle.dumps({"url": SITE, "meta": {"x": Evil()}}), "calls"),
        (b"no request", "neither a pickle nor JSON"),
        (b"\xc1\xc1\x81", "a damaged entry"),
        (b"\xc1\xc1\x81\xa3url\xa6file:/", "file:"),
        (json.dumps({"url": SITE, "callback": "gone"}).encode(), "the spider 'shop' has no method 'gone'"),
        (json.dumps({"url": SITE, "callback": "__init__"}).encode(), "begins with an underscore"),
        (json.dumps({"url": SITE, "_class": "subprocess.Popen"}).encode(), "subprocess.Popen"),
    ],
)
def test_an_entry_that_is_no_request_of_this_spider_is_refused(make, server, capsys, entry, sentence):
    queue = make(FifoQueue)
    server.lpush(queue.key, entry)
    with pytest.raises(RequestError, match=sentence):
        queue.pop()
    assert "this was run" not in capsys.readouterr().out


def test_what_could_not_come_back_is_not_stored(make):
    queue = make(FifoQueue)
    with pytest.raises(RequestError, match=r"meta\['x'\]: a builtins.object cannot be stored"):
        queue.push(request("a", meta={"x": object()}))
    with pytest.raises(RequestError, match="is not a method of the spider 'shop'"):
        queue.push(request("a", callback=print))
    with pytest.raises(RequestError, match="the cap is 65536"):
        queue.push(request("a", body=b"x" * 70_000))
    assert len(queue) == 0


def test_a_serializer_of_the_project_gets_the_dict_of_a_request(make, server):
    def dumps(fields):
        return json.dumps({"url": fields["url"], "callback": fields["callback"], "times": fields["meta"]["times"]})

    def loads(data):
        fields = json.loads(data)
        return {"url": fields["url"], "callback": fields["callback"], "meta": {"times": fields["times"] + 1}}

    queue = make(FifoQueue, SimpleNamespace(dumps=dumps, loads=loads))
    queue.push(request("a", callback=SPIDER.parse_item, meta={"times": 1}))
    assert json.loads(server.lindex(queue.key, 0))["callback"] == "parse_item"
    assert ((found := queue.pop()).meta, found.callback) == ({"times": 2}, SPIDER.parse_item)
    assert make(FifoQueue).serializer is picklecompat
    with pytest.raises(TypeError, match="has no function 'loads'"):
        make(FifoQueue, object())


def test_the_base_of_custom_queues_encodes_and_decodes(make):
    queue = make(Base)
    assert queue._decode_request(queue._encode_request(RICH)).to_dict(spider=SPIDER) == RICH.to_dict(spider=SPIDER)
    for act in (lambda: len(queue), lambda: queue.push(RICH), queue.pop):
        with pytest.raises(NotImplementedError):
            act()


@both_versions
def test_a_spider_says_that_it_does_not_read_the_key_and_an_import_brings_it_in(
    program, site, server, valkey, crawl, out, version
):
    queue = FifoQueue(server, scrapy.Spider(f"{crawl}-one"), "%(spider)s:requests")
    queue.push(scrapy.Request(site.at("/b?pushed=1"), callback=queue.spider.parse))
    first = program("alone", version, SCHEDULER_PERSIST=True)
    assert f"The key '{queue.key}' has 1 requests" in first.log
    assert f"silkline import scrapy-redis --spider {crawl}-one" in first.log
    assert "/b?pushed=1" not in [fact["url"] for fact in lines(out)]
    with ImportSource.open(valkey.url) as source, SyncFrontier.open(valkey.url, crawl=f"{crawl}-one") as frontier:
        summary = ImportSummary("one", f"{crawl}-one", created=False, move=True, dry_run=False)
        QueueImport(source, frontier, summary, lambda *_: None).run(queue.key, f"{crawl}-one:dupefilter")
        assert (summary.added, summary.refused, len(queue)) == (1, 0, 0)
    second = program("alone", version, SCHEDULER_PERSIST=True)
    assert "does not read" not in second.log
    assert "/b?pushed=1" in [fact["url"] for fact in lines(out)]
