"""Spiders that are fed from Redis, as projects of scrapy-redis have them. Run by the tests in processes of their own."""

from __future__ import annotations

import asyncio

from scrapy import Selector
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import Rule

from silkline.scrapy import RedisCrawlSpider, RedisPipeline, RedisSpider


def describe(response, callback, **kwargs):
    request = response.request
    return {
        "url": response.url,
        "callback": callback,
        "kwargs": kwargs,
        "meta": {key: value for key, value in request.meta.items() if key[:8] not in ("download", "selector", "large")},
        "flags": list(request.flags),
        "priority": request.priority,
        "encoding": request.encoding,
        "dont_filter": request.dont_filter,
    }


UNSTORABLE = {
    b"lambda": lambda spider, request: request.replace(callback=lambda response: spider.parse(response)),  # noqa: PLW0108
    b"selector": lambda spider, request: request.replace(meta={"selector": Selector(text="<p>")}),
    b"large": lambda spider, request: request.replace(meta={"large": "x" * 70_000}),
    b"blocks": lambda spider, request: request.replace(callback=lambda response: spider.parse_slowly(response)),  # noqa: PLW0108
}
"""Requests that cannot be stored, by the word with which their messages begin."""


class Fed(RedisSpider):
    """Its name is given on the command line, so that each test has keys of its own."""

    name = "fed"

    def make_request_from_data(self, data):
        word, _, rest = data.partition(b"!")
        if word == b"none":
            return None
        if word == b"many":
            return [super(Fed, self).make_request_from_data(one) for one in rest.split()]
        if word in UNSTORABLE:
            return UNSTORABLE[word](self, super().make_request_from_data(rest))
        if word == b"both":
            some = super().make_request_from_data
            return [some(rest + b"/stored"), UNSTORABLE[b"lambda"](self, some(rest + b"/memory"))]
        if word == b"locked" and not self.server.exists(f"{self.name}:open"):
            raise KeyError("it is locked")
        return super().make_request_from_data(rest or data)

    def parse(self, response):
        yield describe(response, "parse")

    def parse_thing(self, response, **kwargs):
        yield describe(response, "parse_thing", **kwargs)

    async def parse_slowly(self, response):
        """Yield a link, and end when the test wants it."""
        yield response.follow(response.url + "/link", callback=self.parse)
        self.server.rpush(f"{self.name}:begun", response.url)
        while not self.server.exists(f"{self.name}:open"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        yield describe(response, "parse_slowly")

    def failed(self, failure):
        yield {"url": failure.request.url, "callback": "failed"}


class LogsWhenIdle(Fed):
    def spider_idle(self):
        self.logger.info("no worker has anything to do")
        super().spider_idle()


class WithStartUrls(Fed):
    """Has start URLs of its own besides the messages."""

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.start_urls = crawler.settings.getlist("START_URLS")
        return spider


class Follower(RedisCrawlSpider):
    name = "follower"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def parse_page(self, response):
        yield {"url": response.url}


class ReadsItself(RedisSpider):
    """Overrides `next_requests`, as many do."""

    name = "reads-itself"

    def next_requests(self):
        while (data := self.server.rpop(self.redis_key)) is not None:
            yield from self.make_request_from_data(data)

    def make_request_from_data(self, data):
        yield super().make_request_from_data(data)

    def parse(self, response):
        yield {"url": response.url}


class ByHost(RedisPipeline):
    """Has a key for each kind of page."""

    def item_key(self, item, spider):
        return f"{spider.name}:items:{'slow' if 'slow' in item['url'] else 'fast'}"
