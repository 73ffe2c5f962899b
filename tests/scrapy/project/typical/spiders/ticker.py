"""The chain spider with a clock: if the reactor is blocked, the clock stands still."""

import os
import time

from scrapy import signals
from twisted.internet.task import LoopingCall

from typical.spiders.chain import ChainSpider


class TickerSpider(ChainSpider):
    name = "ticker"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.begin, signals.spider_opened)
        return spider

    def begin(self):
        self.ticks = os.open(os.environ["TICKS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        LoopingCall(self.tick).start(0.02)

    def tick(self):
        os.write(self.ticks, f"{time.monotonic()}\n".encode())
