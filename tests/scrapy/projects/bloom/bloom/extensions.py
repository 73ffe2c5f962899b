"""Closes a spider that was idle several times in a row."""

import logging

from scrapy import signals
from scrapy.exceptions import NotConfigured

logger = logging.getLogger(__name__)


class CloseWhenIdle:
    def __init__(self, crawler, most):
        self.crawler, self.most, self.times = crawler, most, 0

    @classmethod
    def from_crawler(cls, crawler):
        if not crawler.settings.getbool("MYEXT_ENABLED"):
            raise NotConfigured
        extension = cls(crawler, crawler.settings.getint("IDLE_NUMBER", 360))
        crawler.signals.connect(extension.response_received, signal=signals.response_received)
        crawler.signals.connect(extension.spider_idle, signal=signals.spider_idle)
        return extension

    def response_received(self, response, request, spider):
        self.times = 0

    def spider_idle(self, spider):
        self.times += 1
        if self.times >= self.most and not spider.server.exists(spider.redis_key):
            logger.info("idle %d times, closing", self.times)
            self.crawler.engine.close_spider(spider, "idle for too long")
