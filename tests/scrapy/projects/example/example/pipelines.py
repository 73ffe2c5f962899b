"""A pipeline in front of RedisPipeline."""

from datetime import UTC, datetime


class StampPipeline:
    def process_item(self, item, spider):
        item["crawled"] = datetime.now(UTC)
        item["spider"] = spider.name
        return item
