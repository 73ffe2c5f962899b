"""A project with a slot for each proxy."""

import os

import scrapy


class Proxied(scrapy.Spider):
    """Chooses a slot for each request, whatever its host; a second page copies the meta of the first."""

    name = "proxied"
    custom_settings = {
        "ADDONS": {"silkline.scrapy.Addon": 100},
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "CONCURRENT_REQUESTS": 32,
        "TELNETCONSOLE_ENABLED": False,
        "SCHEDULER_PERSIST": True,
        "RETRY_TIMES": 1,
    }

    async def start(self):
        for number in range(12):
            yield scrapy.Request(f"{os.environ['SITE']}/held/{number}", meta={"download_slot": f"Proxy #{number % 6}"})
        for path in ("/moved", "/links", "/broken"):
            yield scrapy.Request(os.environ["SITE"] + path)

    def parse(self, response):
        if response.url.endswith("/links"):
            yield scrapy.Request(f"{os.environ['OTHER']}/missing/copied", meta=response.meta)
