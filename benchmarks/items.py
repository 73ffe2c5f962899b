"""The item that the Scrapy benchmark puts into meta. Its class has a name and place as in most projects."""

from scrapy import Field, Item


class ProductItem(Item):
    name = Field()
    price = Field()
    currency = Field()
    category = Field()
    sku = Field()


def product_of(url: str) -> ProductItem:
    """Return what a list of products says about the product of *url*."""
    category, slug = url.split("/")[-2:]
    look, material, thing, number = slug.split("-")
    cents = int(number) % 30_000
    return ProductItem(
        name=f"{look} {material} {thing}".capitalize(),
        price=f"{cents // 100}.{cents % 100:02}",
        currency="EUR",
        category=category,
        sku=f"SL-{number}",
    )
