"""A worker process for tests: ``python -m tests.worker.child REDIS CRAWL DELAY CONCURRENCY OUT``."""

import sys

from silkline import Crawl, Politeness
from silkline.core.scope import Scope
from silkline.runtime.event_loop import run_async
from silkline.worker.crawl.crawl import FetchOptions
from silkline.worker.options import WorkerOptions
from silkline.worker.process.process import work


def shop_crawl(name, delay, concurrency, start=()):
    """Crawls a `Shop` on several hosts."""
    crawl = Crawl(
        name,
        start,
        politeness=Politeness(delay=float(delay), concurrency=int(concurrency)),
        fetching=FetchOptions(allow_private=True),
        scope=Scope(stay="host", deny=("/calendar/",)),
        retries=[0.1, 0.2, 0.4, 0.8, 1.6],
    )

    @crawl.handler
    def page(page):
        sku = page.css_first(".sku")
        if sku:
            yield {
                "sku": sku.text(),
                "title": page.css_first("h1").text(),
                "price": page.css_first(".price").text(),
                "host": page.url.split("/")[2],
            }
        yield page.follow(page.css("a[href]"))

    return crawl


if __name__ == "__main__":
    redis, name, delay, concurrency, *outs = sys.argv[1:]
    run_async(
        work(
            shop_crawl(name, delay, concurrency),
            redis,
            outs,
            options=WorkerOptions(concurrency=16, lease=2.0, drain=5.0),
        )
    )
