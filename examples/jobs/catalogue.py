"""Pages and tasks of one crawl: products are crawled, their images resized, and a report is written when all are done.

Run it: silkline run examples/jobs/catalogue.py
"""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from silkline import Crawl, FetchOptions, Page, Politeness, Request, RetryLater

crawl = Crawl(
    "catalogue",
    start=os.environ.get("SHOP", "https://shop.example/"),
    politeness=Politeness(delay=0.01, concurrency=4),
    fetching=FetchOptions(allow_private=True),  # only because the shop of the tests is on this machine
)


@crawl.handler
def listing(page: Page) -> Iterator[Request]:
    products = [link.attributes["href"] for link in page.css("a.product")]
    yield from (page.follow(path, product) for path in products)
    yield report.options(unique="report").request(names=products)


@crawl.handler
def product(page: Page) -> Iterator[Request]:
    name = urlsplit(page.url).path
    yield resize.options(unique=name).request(name=name)


@crawl.task(cpu=True, retries=[1, 10])
def resize(name: str) -> int:
    return sum(range(len(name) * 1000)) % 1000  # in your program: with Pillow


@crawl.task(retries=[1] * 100)
def report(names: list[str]) -> str:
    frontier = crawl.sync_frontier()
    # The key of a call is how its result is found again.
    results = [frontier.result(resize.options(unique=name).request(name=name)) for name in names]
    if None in results:
        raise RetryLater(after=0.2, why=f"{results.count(None)} images are missing")
    lines = [f"{name} {result.value}\n" for name, result in zip(names, results, strict=True)]
    Path("report.txt").write_text("".join(lines))
    return f"{len(lines)} images"
