"""Asks for pages that the middlewares treat in their ways."""

import scrapy


class Treated(scrapy.Spider):
    name = "treated"

    def __init__(self, site, **options):
        super().__init__(**options)
        self.start_urls = [site]

    def parse(self, response):
        for number in range(4):
            yield response.follow(f"/banned/{number}", self.parse_title)
            yield response.follow(f"/busy/{number}", self.parse_title)
            yield response.follow(f"/product/{number}", self.parse_wrong)
        yield response.follow("/local", self.parse_title)
        yield response.follow("/skipped", self.parse_title, errback=self.failed)
        meta = {"fallback": response.urljoin("/product/99")}
        yield scrapy.Request("http://127.0.0.1:1/refused", self.parse_title, meta=meta)

    def parse_title(self, response):
        yield {"title": response.css("title::text").get(), "bans": response.meta.get("bans", 0)}

    def parse_wrong(self, response):
        yield {"title": response.css("title::text").get()}
        if response.url.endswith(("1", "3")):
            raise ValueError("an odd product")

    def failed(self, failure):
        yield {"failed": failure.type.__name__}
