"""A worker process for the liveness suite: ``python -m tests.worker.liveness_worker REDIS CRAWL FETCHER``."""

import asyncio
import sys

from silkline import Crawl, FetchOptions, Frontier, Politeness, Scope, Worker
from silkline.fetch.aiohttp_fetcher import AiohttpFetcher
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.runtime.event_loop import run_async
from silkline.worker.options import WorkerOptions

DELAY = 0.1


def _aiohttp(fetching):
    return AiohttpFetcher(fetching.limits, guard=Guard(allow_private=True))


def liveness_crawl(name, fetcher):
    """Follows all links of a host and looks at every page with CSS selectors."""
    crawl = Crawl(
        name,
        politeness=Politeness(delay=DELAY),
        scope=Scope(stay="host", max_depth=1),
        fetching=FetchOptions(
            allow_private=True, limits=Limits(timeout=10.0), fetcher=_aiohttp if fetcher == "aiohttp" else None
        ),
        retries=[1.0],
    )

    @crawl.handler
    def parse(page):
        yield page.follow(page.css("a[href]"))
        yield {"url": page.url, "text": len(page.text)}

    return crawl


async def main():
    redis, name, fetcher = sys.argv[1:]
    crawl = liveness_crawl(name, fetcher)
    async with await Frontier.open(redis, crawl=name, **crawl.arguments) as frontier:
        await Worker(crawl, frontier, options=WorkerOptions(concurrency=32, lease=30.0, drain=1.0), forever=True).run()


if __name__ == "__main__":
    run_async(main())
    asyncio.set_event_loop(None)
