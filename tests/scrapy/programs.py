"""Programs that run spiders of their own: ``programs.py NAME``. The test says where the site is."""

import asyncio
import json
import os
import sys
import time
import urllib.request

import scrapy
from scrapy import crawler as crawlers
from scrapy.crawler import CrawlerProcess, CrawlerRunner
from scrapy.http import HtmlResponse
from scrapy.utils.defer import deferred_f_from_coro_f
from scrapy.utils.reactor import install_reactor
from w3lib.url import url_query_cleaner

from silkline.core.errors import SilklineError
from silkline.scrapy import RFPDupeFilter
from silkline.scrapy.bridge import Bridge
from silkline.scrapy.middlewares import find_scheduler

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


class Copies(Base):
    """Hands the meta of a page on to its links, as many do."""

    name = One.name

    def parse(self, response):
        write(spider=self.name, url=response.url.removeprefix(SITE))
        yield from response.follow_all(css="a", meta=response.meta)


class OwnSet(RFPDupeFilter):
    """A filter as many projects of scrapy-redis have one: it keeps what was seen in a place of its own."""

    def __init__(self, server, key, debug=False):
        super().__init__(server, key, debug)
        self.opened = False

    def open(self):
        self.opened = True

    def request_seen(self, request):
        assert self.opened
        return not self.server.sadd(self.key, request.url)


class Curious(Base):
    """Asks its scheduler everything that code which knows scrapy-redis may ask."""

    name = One.name

    def parse(self, response):
        if response.url != SITE + "/":
            return
        scheduler = find_scheduler(self.crawler)
        scheduler.queue.push(scrapy.Request(SITE + "/b", callback=self.parse_b))
        scheduler.queue.push(scrapy.Request(SITE + "/b", callback=self.parse_b))
        self.ask("len", lambda: len(scheduler))
        self.ask("len of the queue", lambda: len(scheduler.queue))
        self.ask("pop", scheduler.queue.pop)
        self.ask("clear", scheduler.queue.clear)
        self.ask("df.clear", scheduler.df.clear)
        self.ask("df.request_seen", lambda: scheduler.df.request_seen(response.request))
        self.ask("flush", scheduler.flush)
        scheduler.queue.push(scrapy.Request(SITE + "/b", callback=self.parse_b))
        self.scheduler = scheduler

    pushed = 0

    def parse_b(self, response):
        self.pushed += 1

    def closed(self, reason):
        self.ask("pushed", lambda: self.pushed)
        self.ask("len at the end", lambda: len(self.scheduler))
        self.ask("flushed", self.scheduler.flush)

    def ask(self, what, act):
        try:
            answer = act()
        except SilklineError as error:
            answer = str(error)
        write(asked=what, answer=answer)


class Slow(Base):
    """Blocks the reactor for longer than a lease lasts."""

    name = One.name

    def parse(self, response):
        if response.url == SITE + "/":
            time.sleep(2.5)
        yield from super().parse(response)


class Hesitant(Base):
    """Begins when the crawl has been empty for a while, and everybody knows it."""

    name = One.name

    async def start(self):
        await asyncio.sleep(1.25)
        yield scrapy.Request(SITE + self.begin)


class InThread:
    """A download handler of the project's own: asynchronous, and in no hurry."""

    lazy = False

    @classmethod
    def from_crawler(cls, crawler):
        return cls()

    async def download_request(self, request, spider=None):
        await asyncio.sleep(0.05)
        body = await asyncio.to_thread(lambda: urllib.request.urlopen(request.url).read())
        return HtmlResponse(request.url, body=body, request=request, flags=["in a thread"])

    if scrapy.version_info < (2, 14):
        download_request = deferred_f_from_coro_f(download_request)

    async def close(self): ...


def together(process=CrawlerProcess):
    process = process(SETTINGS)
    process.crawl(One)
    process.crawl(Two)
    process.start()


def alone_async():
    process = crawlers.AsyncCrawlerProcess(SETTINGS)
    process.crawl(One)
    process.start()


def together_async():
    together(crawlers.AsyncCrawlerProcess)


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


def copies():
    alone(Copies)


def curious():
    alone(Curious)


def slow():
    alone(Slow)


def hesitant():
    """The engine asks whether anything is left in the very moment in which its request is stored and not yet claimed."""
    sent = Bridge._sent

    def wait_and_see(bridge):
        for _ in range(5):
            bridge.call_reactor(bridge.changed)
            time.sleep(0.04)
        sent(bridge)

    Bridge._sent = wait_and_see
    alone(Hesitant)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
