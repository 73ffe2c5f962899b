"""A whole crawl in one program: crawl a local shop into a file.

For a real site, put the crawl in its own file and run it with: silkline run shop.py -o shop.jsonl
Run it: python examples/crawl_shop.py
"""

import json
from pathlib import Path

from silkline import Crawl, FetchOptions, Page, Politeness, run
from silkline.testing import Shop, SiteProcess

SHOP = Shop(pages=63, trouble=False)


def define(start: str) -> Crawl:
    crawl = Crawl(
        "crawl-shop",
        start=start,
        politeness=Politeness(delay=0.01, concurrency=4),
        fetching=FetchOptions(allow_private=True),  # otherwise addresses of this machine are refused
    )

    @crawl.handler
    def listing(page: Page):
        yield page.follow(page.css("a.product"), product)
        yield page.follow(page.css_first("a.next"))  # None on the last page, which is ignored

    @crawl.handler
    def product(page: Page):
        yield {name: page.text_of(selector) for name, selector in FIELDS.items()}

    return crawl


FIELDS = {"sku": "p.sku", "title": "h1", "price": "p.price"}


def main() -> None:
    Path("shop.jsonl").unlink(missing_ok=True)
    with SiteProcess(SHOP) as site:
        summary = run(define(site.url), "shop.jsonl", fresh=True)
    stored = [json.loads(line) for line in Path("shop.jsonl").read_text().splitlines()]
    print(f"{summary.pages} pages, {summary.items} items")
    print("exactly what the shop serves:", sorted(stored, key=lambda item: item["sku"]) == SHOP.items)


if __name__ == "__main__":
    main()
