"""A worker on a crawl of many hosts: ``python -m tests.worker.broad REDIS CRAWL``."""

import sys

from silkline import Crawl, Politeness
from silkline.runtime.event_loop import run_async
from silkline.worker.crawl.crawl import FetchOptions
from silkline.worker.process.process import work


def broad_crawl(name):
    """One page of every host, with the usual concurrency and retries."""
    crawl = Crawl(name, politeness=Politeness(delay=0), fetching=FetchOptions(allow_private=True))

    @crawl.handler
    def page(page):
        yield {"url": page.url}

    return crawl


if __name__ == "__main__":
    redis, name = sys.argv[1:]
    run_async(work(broad_crawl(name), redis))
