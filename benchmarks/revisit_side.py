"""Two visits of a shop by one worker: the first one, and one of pages that have not changed. Prints the CPU time of each.

The option is ``304`` if the server compares ETags, or ``same`` if it sends each page again and the worker compares it.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from benchmarks.crawl_side import crawl as shop_crawl
from benchmarks.crawl_side import start
from benchmarks.crawl_task import CONCURRENCY, CrawlTask, read_crawl_task
from silkline import Frontier, Revisit, Worker
from silkline.runtime.event_loop import run_async
from silkline.sinks import open_sink
from silkline.testing import Shop, SiteResponse
from silkline.testing.site.responses import Route
from silkline.worker.options import WorkerOptions

INTERVAL = 45
"""Seconds between the two visits: more than the first one takes."""


def with_etags() -> dict[str, Route]:
    """Return the routes of the shop of the crawl benchmark, with an ETag for each page."""
    routes = Shop(pages=5_000, page_bytes=11_000, trouble=False).routes()
    pages = {path: route for path, route in routes.items() if path == "/" or path.endswith("/*")}
    return {**routes, **{path: _tagged(route) for path, route in pages.items()}}


def _tagged(route: Route) -> Route:
    def answer(visit):
        page = route(visit)
        if not isinstance(page, SiteResponse):
            return page
        etag = f'"{hash(visit.path) & 0xFFFFFFFFFFFF:012x}"'
        if visit.headers.get("if-none-match") == etag:
            return SiteResponse("", status=304, headers={"ETag": etag})
        return SiteResponse(page.body, headers={"ETag": etag, "Content-Type": "text/html"})

    return answer


async def visit_twice(task: CrawlTask, out: Path) -> dict[str, float]:
    """Return the CPU seconds of both visits."""
    shop_crawl.revisit = Revisit(INTERVAL, skip_unchanged=True, conditional=task.option == "304")
    await start(task)
    async with await Frontier.open(task.server, crawl=shop_crawl.name, **shop_crawl.arguments) as frontier:
        options = WorkerOptions(concurrency=CONCURRENCY)
        worker = Worker(shop_crawl, frontier, sinks=[open_sink(str(out))], options=options, forever=True)
        began, running = time.process_time(), asyncio.create_task(worker.run())
        await _until(running, lambda: worker.counters.ended >= task.pages)
        first = waited = time.process_time()
        assert worker.counters.revisited == 0, "the first visit took longer than the interval"
        while worker.counters.revisited == 0:  # waiting costs little, and is no part of the second visit
            waited = time.process_time()
            await asyncio.sleep(0.05)
        await _until(running, lambda: worker.counters.revisited >= task.pages)
        again = time.process_time()
        worker.stop()
        counters = await running
    skipped = counters.not_modified if task.option == "304" else counters.unchanged
    assert (counters.pages, skipped) == (task.pages, task.pages), f"{counters.pages} pages, {skipped} unchanged"
    return {"first": first - began, "again": again - waited}


async def _until(running: asyncio.Task, holds: Callable[[], bool]) -> None:
    while not holds():
        assert not running.done(), running.result()
        await asyncio.sleep(0.05)


def main() -> None:
    """Visit the pages twice and print the measurements."""
    task = read_crawl_task()
    with tempfile.TemporaryDirectory(prefix="silkline-bench-") as folder:
        cpu = run_async(visit_twice(task, Path(folder) / "items.jsonl"))
    versions = {package: version(package) for package in ("silkline", "wreq", "selectolax", "redis", "hiredis")}
    print(json.dumps({"count": task.pages, "cpu": cpu, "versions": versions}))


if __name__ == "__main__":
    main()
