"""One spider asks for listings first, the other one for products."""

import scrapy


class Broad(scrapy.Spider):
    name = "broad"
    listing, product = 10, 0

    def __init__(self, site, **options):
        super().__init__(**options)
        self.start_urls = [site]
        self.order = 0

    def parse(self, response):
        yield from response.follow_all(css="a.product", callback=self.parse_product, priority=self.product)
        yield from response.follow_all(css="a.next", priority=self.listing)
        yield self.item(response)

    def parse_product(self, response):
        yield self.item(response)

    def item(self, response):
        self.order += 1
        kind = response.css("title::text").get().split()[0]
        return {"kind": kind, "path": response.url.split("/", 3)[3], "order": self.order}


class Deep(Broad):
    name = "deep"
    listing, product = 0, 10
