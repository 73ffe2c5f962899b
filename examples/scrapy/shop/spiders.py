"""Every product of a shop.

Start a shop:   python -m silkline.testing.site --port 8000 --no-trouble
Crawl it:       scrapy crawl shop -a start=http://127.0.0.1:8000/ -o products.jsonl
Add a worker:   run the same command in another terminal; both share the work
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.http import Response


class Shop(scrapy.Spider):
    """Follows the listings and yields an item for every product."""

    name = "shop"

    def __init__(self, start: str, **options: Any) -> None:
        super().__init__(**options)
        self.start_urls = [start]

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a.product", callback=self.parse_product)
        yield from response.follow_all(css="a.next")

    def parse_product(self, response: Response) -> Iterator[dict[str, str | None]]:
        yield {
            "sku": response.css("p.sku::text").get(),
            "title": response.css("h1::text").get(),
            "price": response.css("p.price::text").get(),
        }
