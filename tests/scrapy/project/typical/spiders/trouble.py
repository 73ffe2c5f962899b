"""A spider to which everything happens that can happen to a spider."""

import os

import scrapy
from scrapy.exceptions import IgnoreRequest

from silkline import Bury
from silkline.scrapy.middlewares import find_scheduler


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("it cannot say what it is")


class ReplaceMiddleware:
    """Makes another request of one, and refuses another."""

    def process_request(self, request, spider):
        if request.url.endswith("/replaced"):
            return scrapy.Request(request.url.replace("/replaced", "/replacement"), callback=spider.parse_fine)
        if request.url.endswith("/ignored"):
            raise IgnoreRequest("not this one")
        return None


class TroubleSpider(scrapy.Spider):
    name = "trouble"
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {"typical.spiders.trouble.ReplaceMiddleware": 100},
        "RETRY_TIMES": 1,
        "ROBOTSTXT_OBEY": False,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    }

    def __init__(self, *args, site="", closed="", **kwargs):
        super().__init__(*args, **kwargs)
        self.site, self.closed_port = site, closed
        self.start_urls = [site] if site else []

    def parse(self, response):
        for name in ("fine", "moved", "replaced", "ignored", "missing", "broken", "busy", "raises", "drops", "fails",
                     "surrogate", "speechless", "untold"):  # fmt: skip
            yield response.follow(f"/{name}", callback=getattr(self, f"parse_{name}", self.parse_fine))
        yield response.follow("/handled", errback=self.handle, callback=self.parse_fine)
        yield response.follow("/passed-on", errback=self.pass_on, callback=self.parse_fine)
        yield response.follow("/errback-raises", errback=self.err, callback=self.parse_fine)
        yield scrapy.Request(self.closed_port, callback=self.parse_fine)
        yield scrapy.Request(f"{self.closed_port}/handled", callback=self.parse_fine, errback=self.handle)
        yield scrapy.Request(f"{self.closed_port}/passed-on", callback=self.parse_fine, errback=self.pass_on)
        yield response.follow("/unstorable", callback=lambda response: None)
        yield response.follow("/selector", meta={"deep": [{"selector": response.css("a")}]}, callback=self.parse_fine)
        yield response.follow("/too-large", method="POST", body="x" * 70_000, callback=self.parse_fine)
        yield scrapy.Request("data:,hello", callback=self.parse_fine)
        yield scrapy.Request("file:///etc/hostname", callback=self.parse_fine)
        yield response.follow("/last", callback=self.parse_fine)

    def parse_fine(self, response):
        yield {"url": response.url, "pid": os.getpid()}

    def parse_raises(self, response):
        yield {"url": response.url}
        yield response.follow("/found-before-the-exception", callback=self.parse_fine)
        raise KeyError("half-way")

    def parse_surrogate(self, response):
        raise ValueError("a name of half a character: \ud800")

    def parse_speechless(self, response):
        raise Speechless

    def parse_untold(self, response):
        """As a fault of the plugin's own would do it: a verdict that nobody can write down."""
        find_scheduler(self.crawler).tracker._by_result[response].error = Bury("broken", None, b"no text")

    def parse_drops(self, response):
        yield {"url": response.url, "drop": True}

    def parse_fails(self, response):
        yield {"url": response.url, "fail": True}

    def handle(self, failure):
        yield {"handled": failure.request.url}

    def pass_on(self, failure):
        return failure

    def err(self, failure):
        raise RuntimeError("the errback is broken too")
