"""A project with a render service: a middleware sends the pages of all sites to one host, each with a slot of its site."""

import json
import os
from urllib.parse import urlencode, urlsplit

import scrapy


class Render:
    """Replaces a request as the middleware of scrapy-splash does: a slot for each site, whatever host renders it."""

    def process_request(self, request, spider=None):
        if "rendered" in request.meta:
            return None
        meta = {**request.meta, "rendered": request.url, "download_slot": urlsplit(request.url).hostname}
        return request.replace(
            url=f"{os.environ['SERVICE']}/render?{urlencode({'url': request.url})}", meta=meta, dont_filter=True
        )


class Rendered(scrapy.Spider):
    name = "rendered"
    custom_settings = {
        "ADDONS": {"silkline.scrapy.Addon": 100},
        "DOWNLOADER_MIDDLEWARES": {"rendering.Render": 725},
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_SLOTS": {"site-1.example": {"concurrency": int(os.environ.get("CONCURRENCY", "1"))}},
        "TELNETCONSOLE_ENABLED": False,
        "SILKLINE_LEASE": 5,
        "SCHEDULER_PERSIST": True,
    }

    async def start(self):
        for number in range(int(os.environ["PAGES"])):
            for site in range(int(os.environ["SITES"])):
                yield scrapy.Request(f"http://site-{site}.example/{number}")

    def parse(self, response):
        with open(os.environ["OUT"], "a") as file:  # noqa: PTH123
            file.write(json.dumps({"url": response.meta["rendered"]}) + "\n")
