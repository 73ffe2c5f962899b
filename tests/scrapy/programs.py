"""Programs that run spiders of their own: ``programs.py NAME``. The test says where the site is."""

import asyncio
import gc
import json
import os
import sys
import time
import urllib.request
from importlib.metadata import requires, version

import scrapy
from packaging.requirements import Requirement
from scrapy import crawler as crawlers
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import CrawlerProcess, CrawlerRunner
from scrapy.http import HtmlResponse
from scrapy.utils.defer import deferred_f_from_coro_f
from scrapy.utils.reactor import install_reactor
from twisted.internet.defer import Deferred
from w3lib.url import url_query_cleaner

from silkline.errors import SilklineError
from silkline.scrapy import RFPDupeFilter, Scheduler
from silkline.scrapy.bridge import engine_hooks
from silkline.scrapy.bridge.bridge import Bridge
from silkline.scrapy.middlewares import find_scheduler

SITE, OUT = os.environ["SITE"], os.environ["OUT"]
SETTINGS = {
    "ADDONS": {"silkline.scrapy.Addon": 100},
    "REDIS_URL": os.environ["REDIS_URL"],
    "SILKLINE_LEASE": 5,
    "SILKLINE_ALLOW_PRIVATE": True,
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


class BareFilter(RFPDupeFilter):
    """A filter whose constructor does not call its base class, as the Bloom filters of many projects."""

    def __init__(self, server, key, debug=False):
        self.server, self.key = server, key

    @classmethod
    def from_settings(cls, settings):
        return cls(None, "bare")


class Persists(Scheduler):
    def __init__(self, crawler):
        super().__init__(crawler)
        self.persist = True


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


class Frozen(Base):
    """Blocks the reactor on its first page until the test has written a file."""

    name = One.name

    def parse(self, response):
        write(spider=self.name, url="frozen")
        while not os.path.exists(OUT + ".go"):  # noqa: PTH110
            time.sleep(0.02)
        yield from super().parse(response)


class Hesitant(Base):
    """Begins when the crawl has been empty for a while, and everybody knows it."""

    name = One.name

    async def start(self):
        await asyncio.sleep(1.25)
        yield scrapy.Request(SITE + self.begin)


class Many(Base):
    """Yields start requests until the first page is there, and no more than MOST."""

    name = One.name
    custom_settings = {"CONCURRENT_REQUESTS": 4}
    MOST = 20_000

    async def start(self):
        self.yielded, self.landed = 0, False
        while self.yielded < self.MOST and not self.landed:
            self.yielded += 1
            yield scrapy.Request(f"{SITE}/p{self.yielded}")
        write(spider=self.name, yielded=self.yielded, landed=self.landed)
        self.crawler.engine.close_spider(self, "enough")

    def parse(self, response):
        self.landed = True


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


class ForbiddenSpider(scrapy.Spider):
    """Asks for addresses that only the operator's own machine has."""

    name = f"{os.environ['CRAWL']}-forbidden"
    custom_settings = {"RETRY_TIMES": 0, "DOWNLOAD_TIMEOUT": 5}

    async def start(self):
        local = SITE.replace("127.0.0.1", "localhost")
        for url in (
            f"{SITE}/b",
            f"{SITE.replace('127.0.0.1', '2130706433')}/c",
            f"{local}/b",
            "http://169.254.169.254/b",
        ):
            yield scrapy.Request(url)

    def parse(self, response):
        write(spider=self.name, url=response.url)


def forbidden():
    process = CrawlerProcess(SETTINGS)
    process.crawl(ForbiddenSpider)
    process.start()


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


def collector():
    before = gc.get_threshold()
    alone()
    write(spider="none", frozen=gc.get_freeze_count() > 0, before=before, after=gc.get_threshold())


def copies():
    alone(Copies)


def curious():
    alone(Curious)


def slow():
    alone(Slow)


def frozen():
    alone(Frozen)


def hesitant():
    """The engine asks whether anything is left in the very moment in which its request is stored and not yet claimed."""
    sent = Bridge._sent

    def wait_and_see(bridge, ended):
        for _ in range(5):
            bridge.wake()
            time.sleep(0.04)
        sent(bridge, ended)

    Bridge._sent = wait_and_see
    alone(Hesitant)


def packages():
    needs = [
        need for need in map(Requirement, requires("scrapy")) if not need.marker or need.marker.evaluate({"extra": ""})
    ]
    assert len(needs) > 10
    write(scrapy=scrapy.__version__, unmet=[str(need) for need in needs if version(need.name) not in need.specifier])


class Watched(scrapy.Spider):
    """Has pages that meet each hook of the plugin, and writes which ones were called."""

    name = f"{os.environ['CRAWL']}-watched"
    custom_settings = {"RETRY_ENABLED": False}

    async def start(self):
        check_without_each_name(self.crawler.engine)
        engine_hooks.watch_sends(self.crawler, self)
        engine_hooks.watch_downloads(self.crawler, self.downloaded)
        engine_hooks.watch_callback_errors(self.crawler, lambda request, failure: self.met("callback", request))
        engine_hooks.watch_errbacks(self.crawler, lambda request, failure: self.met("errback", request))
        engine_hooks.watch_output(
            self.crawler,
            lambda output: self.met("before", output),
            lambda failure, output, response: self.met("failed", output),
            lambda output: self.met("after", output),
        )
        engine_hooks.on_closing(self.crawler, lambda: write(hook="closing"))
        write(hook="scheduler", name=type(engine_hooks.current_scheduler(self.crawler)).__name__)
        yield scrapy.Request(SITE + "/", dont_filter=True)
        yield scrapy.Request("http://127.0.0.1:1/", errback=None)

    hold_back = True

    def ready(self, request):
        """One of them has to wait."""
        self.met("ready", request)
        if not request.url.endswith("/b"):
            return None
        waiting = Deferred()
        asyncio.get_running_loop().call_soon(waiting.callback, None)
        return waiting

    def ended(self, request):
        self.met("ended", request)

    def downloaded(self, original, result, request):
        self.met("download", request)
        return original(result, request)

    def met(self, hook, request):
        write(hook=hook, url=request.url.removeprefix(SITE))

    def parse(self, response):
        yield scrapy.Request(SITE + "/b", callback=self.fail)

    def fail(self, response):
        raise ValueError("as this test wants it")


def check_without_each_name(engine):
    """Write what `check_engine` raises for an engine from which one name is missing."""
    ways = {"the engine": "", "the engine's slot": "_slot.", "the scraper": "scraper."}
    for name, way in ways.items():
        for path in engine_hooks.NEEDED[name]:
            write(missing=f"{name} has no {path}", error=error_without(engine, way + path))
    hidden = {"the scraper": engine_hooks.OUTPUT_HOOKS, "the engine": engine_hooks.CLOSE_SPIDER}
    for name, names in hidden.items():
        error = error_without(engine, *(ways[name] + path for path in names))
        write(missing=f"{name} has neither {names[0]}", error=error)


def error_without(engine, *paths):
    class Crawler:
        pass

    Crawler.engine = Without(engine, [path.split(".") for path in paths])
    try:
        engine_hooks.check_engine(Crawler)
    except SilklineError as error:
        return str(error)
    return None


class Without:
    """An object of Scrapy as it would be without what these ways of attributes lead to."""

    def __init__(self, real, ways):
        self.__dict__["here"] = real, ways

    def __getattr__(self, name):
        real, ways = self.__dict__["here"]
        left = [way[1:] for way in ways if way[0] == name]
        if [] in left:
            raise AttributeError(name)
        found = getattr(real, name)
        return Without(found, left) if left else found


def watched():
    alone(Watched)


def many():
    alone(Many)


def without_hook():
    del ExecutionEngine._handle_downloader_output
    alone(One)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
