"""One Scrapy crawl of one of the three sides: ``plain`` (queue in memory), ``redis`` (scrapy-redis) or ``silkline``.

The spider and the settings are the same for all; only the scheduler and the feed differ. It also runs in the peers'
environment, so it imports Silkline or scrapy-redis only when the side is known.

``follow``  every page and link of the shop, one item per page
``slow``    start URLs that are already on the server (in the spider for plain Scrapy); some are slow
``fill``    one page yields all links; the spider closes before it follows any
``items``   as ``fill``, and every link has an item of five fields in its meta
``starts``  ``start()`` yields all requests; the spider closes with the first page
"""

import argparse
import json
import logging
import time
import warnings
from importlib.metadata import version

from benchmarks.urls import take

warnings.simplefilter("ignore")

from scrapy import Request, Spider  # noqa: E402  (after the filter: importing scrapy-redis warns)
from scrapy.crawler import CrawlerProcess  # noqa: E402

from benchmarks.items import product_of  # noqa: E402

SETTINGS = {
    "LOG_LEVEL": "ERROR",
    "ROBOTSTXT_OBEY": False,
    "DOWNLOAD_DELAY": 0,
    "TELNETCONSOLE_ENABLED": False,
}
SIDES = {
    "plain": {},
    "redis": {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    },
    "silkline": {"ADDONS": {"silkline.scrapy.Addon": 100}, "SILKLINE_ALLOW_PRIVATE": True},
}
PACKAGES = {"plain": [], "redis": ["scrapy-redis", "redis"], "silkline": ["silkline", "redis"]}
COMMON = ["scrapy", "twisted", "parsel", "lxml"]
CONCURRENCY = {"follow": 64, "slow": 16, "fill": 16, "items": 16, "starts": 16}
NAME = "shop"


def fed_spider(side):
    """Return the base class of a spider that reads URLs from Redis."""
    if side == "redis":
        from scrapy_redis.spiders import RedisSpider  # noqa: PLC0415 - only in the peers' environment

        return RedisSpider
    if side == "silkline":
        from silkline.scrapy import RedisSpider  # noqa: PLC0415 - only in our environment

        return RedisSpider
    return Spider


def follow(args):
    class Shop(Spider):
        name = NAME
        start_urls = (args.site,)
        items = 0

        def parse(self, response):
            self.items += 1
            yield {"url": response.url, "title": response.css("h1::text").get()}
            yield from response.follow_all(css="a[href]")

    return Shop


def slow(args):
    base = fed_spider(args.side)

    class Shop(base):
        name = NAME
        start_urls = tuple(f"{args.site}{number}" for number in range(args.pages) if base is Spider)
        items = 0

        def parse(self, _):
            self.items += 1
            self.last = time.time()
            if self.items == args.pages:  # otherwise a spider that reads from Redis waits for more
                self.crawler.engine.close_spider(self, "all there")

    return Shop


def fill(args):
    class Shop(Spider):
        name = NAME
        start_urls = (args.site,)
        items = 0

        def parse(self, _):
            self.crawler.engine.pause()  # no request is taken from the queue
            for url in take(args.pages, args.hosts):
                self.items += 1
                meta = {"item": product_of(url)} if args.task == "items" else None
                yield Request(url, callback=self.parse_item, meta=meta)
            self.crawler.engine.unpause()
            self.crawler.engine.close_spider(self, "full")

        def parse_item(self, _):
            """Never called."""

    return Shop


def starts(args):
    class Shop(Spider):
        name = NAME
        items = 0
        yielded = 0

        async def start(self):
            for number in range(args.pages):
                self.yielded += 1
                yield Request(f"{args.site}?{number}")

        def parse(self, _):
            if not self.items:
                self.items, self.last, self.before = args.pages, time.time(), self.yielded
                self.crawler.engine.close_spider(self, "the first page")

    return Shop


TASKS = {"follow": follow, "slow": slow, "fill": fill, "items": fill, "starts": starts}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=CONCURRENCY)
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("--server", required=True)
    parser.add_argument("--site", required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--settings", type=json.loads, default={}, help="more settings, as JSON")
    parser.add_argument("--part", action="store_true", help="other processes crawl the other pages")
    args = parser.parse_args()
    logging.disable(logging.INFO)
    most = CONCURRENCY[args.task]
    settings = (
        SETTINGS
        | SIDES[args.side]
        | {"CONCURRENT_REQUESTS": most, "CONCURRENT_REQUESTS_PER_DOMAIN": most}
        | args.settings
    )
    if args.side != "plain":
        settings |= {"REDIS_URL": args.server, "SCHEDULER_PERSIST": args.task in ("fill", "items")}
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(TASKS[args.task](args))
    process.crawl(crawler)
    process.start()
    stats, spider = crawler.stats.get_stats(), crawler.spider
    assert spider.items == args.pages or args.part, f"{spider.items} of {args.pages} pages: {stats}"
    ended = spider.last if args.task in ("slow", "starts") else stats["finish_time"].timestamp()
    versions = {package: version(package) for package in (*COMMON, *PACKAGES[args.side])}
    line = {"count": spider.items, "seconds": ended - stats["start_time"].timestamp(), "versions": versions}
    print(json.dumps(line | {"yielded": getattr(spider, "before", 0)}))


if __name__ == "__main__":
    main()
