"""A spider that is stopped, refused and left hanging at every corner. What happens to a page is in its path."""

import asyncio
import os

import scrapy
from scrapy.exceptions import CloseSpider
from scrapy.utils.request import fingerprint


class Picky:
    """A fingerprinter that cannot cope with some URLs."""

    def fingerprint(self, request):
        if "unnamable" in request.url:
            raise ValueError("this has no name")
        return fingerprint(request)


class Tangled:
    """Leaves something in meta that cannot be stored, as middlewares do that keep a session there."""

    def process_request(self, request, spider):
        if "tangled" in request.url:
            request.meta["session"] = object()


class Breaks:
    """A spider middleware that breaks in the middle of what a page gave."""

    async def process_spider_output(self, response, result, spider):
        async for one in result:
            yield one
            if "breaks" in response.url:
                raise KeyError("the middleware broke")


class Hangs:
    """An item pipeline that never comes back."""

    async def process_item(self, item, spider):
        if "hangs" in item["url"] and "CALM" not in os.environ:
            await asyncio.Event().wait()
        return item


class MishapSpider(scrapy.Spider):
    name = "mishaps"
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {"typical.spiders.mishaps.Tangled": 100},
        "SPIDER_MIDDLEWARES": {"typical.spiders.mishaps.Breaks": 100},
        "ITEM_PIPELINES": {"typical.pipelines.StorePipeline": 300, "typical.spiders.mishaps.Hangs": 200},
        "ROBOTSTXT_OBEY": False,
        "RETRY_TIMES": 1,
    }

    def __init__(self, *args, urls="", raises="", **kwargs):
        super().__init__(*args, **kwargs)
        self.urls, self.raises = urls.split(), raises

    async def start(self):
        for url in self.urls:
            yield scrapy.Request(url)
        if self.raises:
            raise RuntimeError("the start is broken")

    def parse(self, response):
        if "stops" in response.url and "CALM" not in os.environ:
            raise CloseSpider("enough")
        yield {"url": response.url, "priority": response.request.priority}
        yield from response.follow_all(css="a")
