"""A spider that keeps its reactor busy now and then, for longer than a delay, as parsing a large page does."""

import time

import scrapy


class BusySpider(scrapy.Spider):
    name = "busy"
    custom_settings = {"ROBOTSTXT_OBEY": False}

    def __init__(self, *args, site="", seconds="0", **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [f"{site}{number}" for number in range(12)]
        self.seconds = float(seconds)
        self.pages = 0

    def parse(self, response):
        self.pages += 1
        if self.pages % 2:
            time.sleep(self.seconds)
        yield {"url": response.url}
