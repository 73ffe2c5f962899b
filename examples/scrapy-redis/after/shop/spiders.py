"""Every product of a shop, with the category on whose listing it was found.

Start a shop:   python -m silkline.testing.site --port 8000 --no-trouble
Feed it:        redis-cli lpush shop:start_urls http://127.0.0.1:8000/
Crawl it:       scrapy crawl shop        (in several terminals, if you like)
See items:      redis-cli lrange shop:items 0 -1
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.http import Response
from silkline.scrapy import RedisSpider


class Product(scrapy.Item):
    """A product of the shop."""

    listing = scrapy.Field()
    sku = scrapy.Field()
    title = scrapy.Field()
    price = scrapy.Field()


class Shop(RedisSpider):
    """Reads start URLs from the list ``shop:start_urls`` and follows the listings."""

    name = "shop"

    def parse(self, response: Response) -> Iterator[Any]:
        item = Product(listing=response.css("h1::text").get())
        yield from response.follow_all(css="a.product", callback=self.parse_product, meta={"item": item})
        yield from response.follow_all(css="a.next", priority=10)

    def parse_product(self, response: Response) -> Iterator[Product]:
        item = response.meta["item"]
        item["sku"] = response.css("p.sku::text").get()
        item["title"] = response.css("h1::text").get()
        item["price"] = response.css("p.price::text").get()
        yield item
