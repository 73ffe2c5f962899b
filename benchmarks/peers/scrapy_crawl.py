"""Scrapy crawls the shop: every page, every link, one item per page into JSON lines.

Option ``redis`` uses the scheduler and dupefilter of scrapy-redis; without it, Scrapy keeps its queue in memory. Delay and
robots.txt are off, and the concurrency per domain is that of the whole crawl.
"""

import json
import logging
import tempfile
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.crawl_task import CONCURRENCY, read_crawl_task

warnings.simplefilter("ignore")

from scrapy import Spider  # noqa: E402  (after the filter: importing scrapy-redis warns)
from scrapy.crawler import CrawlerProcess  # noqa: E402

REDIS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
}


class Shop(Spider):
    """Follows all links."""

    name = "shop"

    def parse(self, response: Any) -> Iterator[Any]:
        """Yield one item and all links."""
        yield {"url": response.url, "title": response.css("h1::text").get()}
        yield from response.follow_all(css="a[href]")


def main() -> None:
    """Crawl and print the measurements."""
    task = read_crawl_task()
    logging.disable(logging.INFO)
    out = Path(tempfile.mkdtemp(prefix="silkline-bench-")) / "items.jsonl"
    settings = {
        "LOG_LEVEL": "ERROR",
        "ROBOTSTXT_OBEY": False,
        "DOWNLOAD_DELAY": 0,
        "CONCURRENT_REQUESTS": CONCURRENCY,
        "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
        "TELNETCONSOLE_ENABLED": False,
        "FEEDS": {str(out): {"format": "jsonlines"}},
    }
    packages = ["scrapy"]
    if task.option == "redis":
        settings |= REDIS | {"REDIS_URL": task.server}
        packages += ["scrapy-redis", "redis", "hiredis"]
    process = CrawlerProcess(settings)
    Shop.start_urls = [task.site]
    crawler = process.create_crawler(Shop)
    process.crawl(crawler)
    process.start()
    stats = crawler.stats.get_stats()
    items = sum(1 for _ in out.open())
    out.unlink()
    out.parent.rmdir()
    assert items == task.pages, f"{items} items of {task.pages} pages"
    seconds = (stats["finish_time"] - stats["start_time"]).total_seconds()
    versions = {package: version(package) for package in packages}
    print(json.dumps({"count": items, "seconds": seconds, "versions": versions}))


if __name__ == "__main__":
    main()
