"""Crawlee renders the pages of the shop with its PlaywrightCrawler: requests in memory, one item per page."""

import asyncio
import json
import logging
import resource
import shutil
import sys
import time
from datetime import timedelta
from importlib.metadata import version
from typing import Any

from crawlee import ConcurrencySettings, Request
from crawlee.crawlers import PlaywrightCrawler, PlaywrightCrawlingContext
from crawlee.storage_clients import MemoryStorageClient


async def render(urls: list[str], pages: int) -> tuple[float, int]:
    """Render all pages with so many tabs at a time; return the seconds and the number of items."""
    crawler = PlaywrightCrawler(
        headless=True,
        browser_type="chromium",
        browser_launch_options={"executable_path": shutil.which("chromium"), "args": ["--no-sandbox"]},
        concurrency_settings=ConcurrencySettings(
            min_concurrency=pages, max_concurrency=pages, desired_concurrency=pages
        ),
        storage_client=MemoryStorageClient(),
        request_handler_timeout=timedelta(seconds=120),
        configure_logging=False,
    )
    titles = []

    @crawler.router.default_handler
    async def parse(context: PlaywrightCrawlingContext) -> None:
        title = await context.page.text_content("h1")
        titles.append(title)
        await context.push_data({"url": context.request.url, "title": title})

    began = time.perf_counter()
    await crawler.run([Request.from_url(url) for url in urls])
    return time.perf_counter() - began, len(titles)


def main() -> None:
    """Render the pages and print the measurements."""
    task: dict[str, Any] = json.loads(sys.argv[1])
    logging.disable(logging.INFO)
    seconds, items = asyncio.run(render(task["urls"], task["pages"]))
    assert items == len(task["urls"]), f"{items} items of {len(task['urls'])} pages"
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in used)
    versions = {package: version(package) for package in ("crawlee", "playwright")}
    print(json.dumps({"count": items, "seconds": seconds, "cpu": cpu, "versions": versions}))


if __name__ == "__main__":
    main()
