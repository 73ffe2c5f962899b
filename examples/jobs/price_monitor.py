"""A price monitor: a recurring task enqueues the same pages again, and a sink writes only prices that have changed.

Run it: silkline run examples/jobs/price_monitor.py
"""

import os
import sqlite3
import time
from collections.abc import Sequence

from silkline import Crawl, FetchOptions, Page, Politeness, Request
from silkline.sinks import Record

PRODUCTS = os.environ.get("PRODUCTS", "https://shop.example/lamp https://shop.example/chair").split()
CHECK_EVERY = int(os.environ.get("CHECK_EVERY", "3600"))
WRITE = """
    INSERT INTO prices SELECT :url, :price, :time
    WHERE :price IS NOT (SELECT price FROM prices WHERE url = :url ORDER BY rowid DESC LIMIT 1)
"""

crawl = Crawl(
    "price-monitor",
    politeness=Politeness(delay=0.1),
    fetching=FetchOptions(allow_private=True),  # only because the shop of the tests is on this machine
)


@crawl.task(every=CHECK_EVERY)
async def check_prices() -> None:
    frontier = await crawl.frontier()
    await frontier.enqueue([Request(url, dont_filter=True) for url in PRODUCTS])  # known URLs too


@crawl.handler
def product(page: Page):
    yield {"url": page.url, "price": float(page.text_of(".price"))}


@crawl.sink
class Changes:
    """An item that is written twice changes nothing."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("prices.db", isolation_level=None)
        self._database.execute("CREATE TABLE IF NOT EXISTS prices (url TEXT, price REAL, time REAL)")

    async def write(self, records: Sequence[Record]) -> None:
        for record in records:
            self._database.execute(WRITE, {**record.item, "time": time.time()})

    async def close(self) -> None:
        self._database.close()
