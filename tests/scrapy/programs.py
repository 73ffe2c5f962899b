"""Programs that run spiders of their own: ``programs.py NAME``. The test says where the site is."""

import json
import os
import sys
import time

import scrapy
from scrapy.crawler import CrawlerProcess, CrawlerRunner
from scrapy.utils.reactor import install_reactor
from w3lib.url import url_query_cleaner

SITE, OUT = os.environ["SITE"], os.environ["OUT"]
SETTINGS = {
    "ADDONS": {"silkline.scrapy.Addon": 100},
    "REDIS_URL": os.environ["REDIS_URL"],
    "SILKLINE_LEASE": 1,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "INFO",
    **json.loads(os.environ.get("SETTINGS", "{}")),
}


def write(**fact):
    with open(OUT, "a") as file:  # noqa: PTH123
        file.write(json.dumps(fact) + "\n")


class Base(scrapy.Spider):
    async def start(self):
        yield scrapy.Request(SITE + self.begin, dont_filter=True)

    begin = "/"

    def parse(self, response):
        write(spider=self.name, url=response.url.removeprefix(SITE))
        yield from response.follow_all(css="a")


class One(Base):
    name = f"{os.environ['CRAWL']}-one"


class Two(Base):
    name = f"{os.environ['CRAWL']}-two"


class ByPath:
    """Two URLs are the same if only their queries differ."""

    def fingerprint(self, request):
        return url_query_cleaner(request.url).encode()


class SeenTwice:
    """A filter of the project's own: what was asked for twice is seen."""

    def __init__(self):
        self.times = {}

    @classmethod
    def from_crawler(cls, crawler):
        return cls()

    def open(self): ...

    def close(self, reason): ...

    def request_seen(self, request):
        self.times[request.url] = self.times.get(request.url, 0) + 1
        return self.times[request.url] > 2

    def log(self, request, spider): ...


class Slow(Base):
    """Blocks the reactor for longer than a lease lasts."""

    name = One.name

    def parse(self, response):
        if response.url == SITE + "/":
            time.sleep(2.5)
        yield from super().parse(response)


def together():
    process = CrawlerProcess(SETTINGS)
    process.crawl(One)
    process.crawl(Two)
    process.start()


def in_sequence():
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    from twisted.internet import defer, reactor  # noqa: PLC0415

    runner = CrawlerRunner(SETTINGS)

    @defer.inlineCallbacks
    def crawl():
        yield runner.crawl(One)
        yield runner.crawl(One)
        yield runner.crawl(Two)
        reactor.stop()

    crawl()
    reactor.run()


def alone(spider=One):
    process = CrawlerProcess(SETTINGS)
    process.crawl(spider)
    process.start()


def slow():
    alone(Slow)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
