"""Crawls a shop: listings, products, what "next" leads to."""

import os

import scrapy


class ShopSpider(scrapy.Spider):
    name = "shop"

    def __init__(self, *args, site="", **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [site] if site else []

    def parse(self, response):
        yield {"listing": response.url, "pid": os.getpid()}
        yield from response.follow_all(
            css="a.product", callback=self.parse_product, cb_kwargs={"found_on": response.url}
        )
        yield from response.follow_all(css="a.next, a.back", priority=10)

    def parse_product(self, response, found_on):
        sku = response.css(".sku::text").get()
        yield {"sku": sku, "title": response.css("h1::text").get(), "price": response.css(".price::text").get(),
               "found_on": found_on, "depth": response.meta["depth"], "pid": os.getpid()}  # fmt: skip
        yield from response.follow_all(css="a.more", callback=self.parse_product, cb_kwargs={"found_on": response.url})
