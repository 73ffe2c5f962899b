"""A spider whose callbacks wait for each other: none is through before all pages are there."""

import asyncio

import scrapy


class PatientSpider(scrapy.Spider):
    name = "patient"
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "ROBOTSTXT_OBEY": False}

    def __init__(self, *args, site="", pages="4", **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [f"{site}{number}" for number in range(int(pages))]
        self.landed = 0
        self.all_here = asyncio.Event()

    async def parse(self, response):
        self.landed += 1
        if self.landed == len(self.start_urls):
            self.all_here.set()
        await self.all_here.wait()
        yield {"url": response.url}
