"""A pipeline that returns Deferreds, and one of scrapy-redis' with other keys and other work."""

from scrapy_redis.pipelines import RedisPipeline
from twisted.internet import reactor, threads
from twisted.internet.task import deferLater


class Later:
    def process_item(self, item, spider):
        if item["number"] % 2:
            return threads.deferToThread(self.mark, item)
        return deferLater(reactor, 0.01, self.mark, item)

    def mark(self, item):
        return {**item, "marked": True}


class ByKind(RedisPipeline):
    def item_key(self, item, spider):
        return f"{super().item_key(item, spider)}:{item['number'] % 2}"

    def _process_item(self, item, spider):
        item["spider"] = spider.name
        self.server.incr("processed")
        return super()._process_item(item, spider)
