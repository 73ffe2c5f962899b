"""Pages and tasks of one crawl: products are crawled, their images resized, and a report is written when all are done.

Run it: silkline run examples/jobs/catalogue.py
"""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from silkline import Crawl, FetchOptions, Page, Politeness, Request

crawl = Crawl(
    "catalogue",
    start=os.environ.get("SHOP", "https://shop.example/"),
    politeness=Politeness(delay=0.01, concurrency=4),
    fetching=FetchOptions(allow_private=True),  # only because the shop of the tests is on this machine
)


@crawl.handler
async def listing(page: Page) -> AsyncIterator[Request]:
    names = [str(link.attributes["href"]) for link in page.css("a.product")]
    images = [resize.handle(unique=name) for name in names]  # the pages of the products enqueue these calls
    await report.options(unique="report", after=images).enqueue(names)
    for name in names:
        yield page.follow(name, product)


@crawl.handler
def product(page: Page) -> Iterator[Request]:
    name = urlsplit(page.url).path
    yield resize.options(unique=name).request(name=name)


@crawl.task(cpu=True, retries=[1, 10])
def resize(name: str) -> int:
    return sum(range(len(name) * 1000)) % 1000  # in your program: with Pillow


@crawl.task
def report(names: list[str]) -> str:
    results = {name: resize.sync.handle(unique=name).result() for name in names}
    Path("report.txt").write_text("".join(f"{name} {result}\n" for name, result in results.items()))
    return f"{len(results)} images"
