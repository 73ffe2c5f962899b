"""A crawl that any program feeds through a Redis list. Workers may be started long before the first URL.

1. silkline worker examples/jobs/feed.py --forever    as many as you like; they wait
2. silkline start examples/jobs/feed.py -o redis:products
3. redis-cli rpush urls https://shop.example/lamp '{"url": "https://shop.example/chair", "priority": 5}'
"""

from silkline import Crawl, FetchOptions, Page, Politeness

crawl = Crawl(
    "fed-shop",
    feeds=["redis:urls"],
    politeness=Politeness(delay=0.1),
    fetching=FetchOptions(allow_private=True),  # only because the shop of the tests is on this machine
)


@crawl.handler
def product(page: Page):
    found = page.json()
    yield {"url": page.url, "name": found["name"], "price": found["price"]}
