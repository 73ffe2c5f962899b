"""Follows every link, and says which pages reached the callback."""

import os

import scrapy


class ChainSpider(scrapy.Spider):
    name = "chain"
    custom_settings = {"ROBOTSTXT_OBEY": False, "RETRY_ENABLED": False}

    def __init__(self, *args, site="", **kwargs):
        super().__init__(*args, **kwargs)
        self.site = site

    async def start(self):
        if self.site:
            yield scrapy.Request(self.site)  # filtered: of several workers one begins

    def parse(self, response):
        yield from response.follow_all(css="a")
        yield {"url": response.url, "pid": os.getpid()}
