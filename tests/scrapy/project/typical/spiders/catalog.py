"""Lists, then products: what the list says of a product travels in meta and cb_kwargs, as in most tutorials."""

import dataclasses

import scrapy


class Product(scrapy.Item):
    number = scrapy.Field()
    name = scrapy.Field()
    title = scrapy.Field()


@dataclasses.dataclass
class Place:
    shelf: str
    position: int


class CatalogSpider(scrapy.Spider):
    name = "catalog"
    custom_settings = {"ROBOTSTXT_OBEY": False}

    def __init__(self, *args, site="", products="0", **kwargs):
        super().__init__(*args, **kwargs)
        self.site, self.products = site, int(products)

    async def start(self):
        yield scrapy.Request(self.site)

    def parse(self, response):
        for number in range(self.products):
            product = Product(number=number, name=f"product {number}")
            yield response.follow(
                f"/product/{number}",
                callback=self.parse_product,
                meta={"item": product},
                cb_kwargs={"place": Place("lamps", number)},
            )

    def parse_product(self, response, place):
        product = response.meta["item"]
        product["title"] = response.css("h1::text").get()
        assert type(product) is Product
        assert type(place) is Place
        assert place.position == product["number"]
        yield {"url": response.url, **product}
