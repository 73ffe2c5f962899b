"""Reads its messages itself, and makes several requests of each."""

import json

import scrapy
from scrapy_redis.spiders import RedisSpider


class Bloom(RedisSpider):
    name = "bloom"
    redis_batch_size = 2

    def next_requests(self):
        found = 0
        for data in self.fetch_data(self.redis_key, self.redis_batch_size):
            for request in self.make_request_from_data(data):
                yield request
                found += 1
        if found:
            self.logger.info("read %d requests", found)

    def make_request_from_data(self, data):
        message = json.loads(data)
        for page in range(message["pages"]):
            yield scrapy.Request(f"{message['site']}listing/{page}", meta={"page": page}, priority=page)

    def parse(self, response):
        for link in response.css("a.product"):
            yield response.follow(link, self.parse_product, cb_kwargs={"page": response.meta["page"]})
        yield response.follow("/listing/0", dont_filter=False, meta=response.meta)

    def parse_product(self, response, page):
        yield {"title": response.css("title::text").get(), "page": page}
