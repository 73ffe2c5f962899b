"""A master that follows listings, and a slave that reads a set."""

import json

import scrapy
from scrapy_redis.spiders import RedisSpider
from scrapy_redis.utils import bytes_to_str


class Product(scrapy.Item):
    found = scrapy.Field()
    title = scrapy.Field()
    stock = scrapy.Field()


class Master(scrapy.Spider):
    name = "master"
    custom_settings = {"ITEM_PIPELINES": {"fleet.pipelines.HandOver": 300}}

    def __init__(self, site, **options):
        super().__init__(**options)
        self.start_urls = [site]

    def parse(self, response):
        for link in response.css("a.product::attr(href)").getall():
            yield {"url": response.urljoin(link), "found": response.css("title::text").get()}
        yield from response.follow_all(css="a.next", priority=5)


class Slave(RedisSpider):
    name = "slave"
    custom_settings = {"ITEM_PIPELINES": {"fleet.pipelines.Store": 300}}

    def make_request_from_data(self, data):
        message = json.loads(bytes_to_str(data, self.redis_encoding))
        return self.make_requests_from_url(message["url"], message["meta"])

    def make_requests_from_url(self, url, meta):
        return scrapy.Request(url, meta=meta, dont_filter=True)

    def parse(self, response):
        item = Product(found=response.meta["found"], title=response.css("title::text").get())
        self.server.sadd("slave:titles", item["title"])
        yield response.follow(response.css("a.detail")[0], self.parse_detail, errback=self.failed, meta={"item": item})
        yield response.follow(
            "/missing", self.parse_detail, errback=self.failed, meta={"item": item.copy()}, dont_filter=True
        )

    def parse_detail(self, response):
        item = response.meta["item"]
        item["stock"] = response.css(".stock::text").get()
        yield item

    def failed(self, failure):
        item = failure.request.meta["item"]
        item["stock"] = f"unknown: {failure.value.response.status}"
        yield item
