"""What the master does with a page that it has found, and the slave with an item."""

import json

from scrapy_redis.connection import get_redis_from_settings


class HandOver:
    def __init__(self, server):
        self.server = server

    @classmethod
    def from_crawler(cls, crawler):
        return cls(get_redis_from_settings(crawler.settings))

    def process_item(self, item, spider):
        self.server.sadd("slave:start_urls", json.dumps({"url": item["url"], "meta": {"found": item["found"]}}))
        return item


class Store(HandOver):
    def process_item(self, item, spider):
        self.server.rpush("stored", json.dumps(dict(item)))
        return item
