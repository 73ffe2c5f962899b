"""scrapy-redis through its own Scheduler, as Scrapy's engine calls it: real Requests, spider, crawler and stats.

The Requests are built before timing starts, because that is the spider's work. They contain only the URL, the cheapest
case. With the option ``callback``, each has a method of the spider as callback, as in most spiders, and each push looks up
its name. There is no acknowledgement to measure: ``next_request`` removes the request.
"""

import logging
import warnings
from typing import Any

from benchmarks.sides import Stopwatch, Task, answer, read_task

warnings.simplefilter("ignore")

from scrapy import Request, Spider  # noqa: E402  (after the filter: importing scrapy-redis warns)
from scrapy.utils.test import get_crawler  # noqa: E402
from scrapy_redis.scheduler import Scheduler  # noqa: E402


class Shop(Spider):
    """A spider of a typical project."""

    name = "shop"

    def parse(self, response: Any) -> None:
        """Never called: nothing is downloaded."""


def open_scheduler(server: str) -> Any:
    """Return the scheduler as a scrapy-redis project configures it: PriorityQueue (the default) and RFPDupeFilter."""
    settings = {
        "REDIS_URL": server,
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_PERSIST": True,
    }
    crawler = get_crawler(Shop, settings)
    crawler.spider = Shop.from_crawler(crawler)
    scheduler = Scheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    return scheduler


def main(task: Task) -> None:
    """Time ``enqueue_request`` or ``next_request``, with one call per URL: there is no batch interface."""
    logging.disable(logging.INFO)
    scheduler = open_scheduler(task.server)

    def enqueue(urls: list[Request]) -> None:
        for request in urls:
            assert scheduler.enqueue_request(request)

    def drain() -> None:
        while request := scheduler.next_request():
            assert request.url

    callback = scheduler.spider.parse if task.option == "callback" else None
    enqueue([Request(url, callback=callback) for url in task.warm_up])
    drain()
    requests = [Request(url, callback=callback) for url in task.urls]
    watch = Stopwatch(task.server)
    if task.verb == "process":
        enqueue(requests)
        with watch:
            drain()
    else:
        with watch:
            enqueue(requests)
    answer(len(requests), watch, "scrapy-redis", "scrapy")


if __name__ == "__main__":
    main(read_task())
