"""Silkline's side of the browser comparison: one worker renders the pages of the shop, with items as JSON lines."""

import asyncio
import json
import resource
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from silkline import Crawl, FetchOptions, Frontier, Page, Politeness, Worker, WorkerOptions
from silkline.fetch import BrowserOptions
from silkline.sinks import open_sink


async def render(server: str, urls: list[str], pages: int, out: str) -> float:
    """Render all pages with so many tabs at a time; return the seconds."""
    options = FetchOptions(allow_private=True, browser=BrowserOptions(pages=pages))
    crawl = Crawl("bench-browser", politeness=Politeness(delay=0, concurrency=2 * pages), fetching=options)

    @crawl.handler(render=True)
    def parse(page: Page):
        yield {"url": page.url, "title": page.text_of("h1")}

    async with await Frontier.open(server, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(urls)
        began = time.perf_counter()
        worker = Worker(crawl, frontier, sinks=[open_sink(out)], options=WorkerOptions(concurrency=2 * pages))
        await worker.run()
        return time.perf_counter() - began


def main() -> None:
    """Render the pages and print the measurements."""
    task = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="silkline-bench-") as folder:
        out = Path(folder) / "items.jsonl"
        seconds = asyncio.run(render(task["server"], task["urls"], task["pages"], str(out)))
        items = sum(1 for _ in out.open())
    assert items == len(task["urls"]), f"{items} items of {len(task['urls'])} pages"
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in used)
    versions = {package: version(package) for package in ("silkline", "playwright")}
    print(json.dumps({"count": items, "seconds": seconds, "cpu": cpu, "versions": versions}))


if __name__ == "__main__":
    main()
