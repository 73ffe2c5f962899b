"""The products of a shop, for workers of a coordinator or of a feed.

Run a worker: silkline worker examples/jobs/shop.py --forever -o 'postgresql://user@host/shop?table=products&key=url'
"""

from silkline import Crawl, FetchOptions, Page, Politeness

crawl = Crawl(
    "shop",
    politeness=Politeness(delay=0, concurrency=8),  # it is our own shop
    fetching=FetchOptions(allow_private=True),  # and on this machine or network
    retries=[1, 10, 60],
)


@crawl.handler
def product(page: Page):
    found = page.json()
    yield {"url": page.url, "name": found["name"], "price": found["price"]}
