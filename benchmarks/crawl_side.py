"""Silkline's side of the crawl comparison: worker processes as ``silkline run`` starts them, a JSON lines sink, robots.txt obeyed.

The option is the number of worker processes; the suffix ``:memory`` records the memory of the workers.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import psutil

from benchmarks.crawl_task import CONCURRENCY, CrawlTask, read_crawl_task
from silkline import Crawl, Frontier, Page, Politeness
from silkline.fetch.limits import Limits
from silkline.runtime.event_loop import run_async
from silkline.worker.crawl.crawl import FetchOptions
from silkline.worker.options import WorkerOptions
from silkline.worker.process.process import work

crawl = Crawl(
    "bench-crawl",
    politeness=Politeness(delay=0, concurrency=CONCURRENCY * 2),
    fetching=FetchOptions(allow_private=True, limits=Limits()),
)


@crawl.handler
def parse(page: Page):
    """Yield one item and all links."""
    title = page.css_first("h1")
    yield {"url": page.url, "title": title and title.text()}
    yield page.follow(page.css("a[href]"))


async def start(task: CrawlTask) -> None:
    """Create the crawl and enqueue its start URL."""
    async with await Frontier.open(task.server, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(task.site)


async def follow_memory(task: CrawlTask, pids: list[int], readings: list[tuple[int, int]]) -> None:
    """Record pages done and resident bytes ten times a second."""
    processes = [psutil.Process(pid) for pid in pids]
    async with await Frontier.open(task.server, crawl=crawl.name, create=False) as frontier:
        while True:
            done = (await frontier.admin.stats()).done
            readings.append((done, sum(process.memory_info().rss for process in processes)))
            await asyncio.sleep(0.1)


async def race(task: CrawlTask, workers: int, out: Path, *, watched: bool) -> tuple[float, list[tuple[int, int]]]:
    """Return the seconds from the start of the workers to their end."""
    await start(task)
    command = [sys.executable, "-m", "benchmarks.crawl_side", "--server", task.server, "--site", str(out)]
    command += ["--pages", "0", "--option", "child"]
    children = [
        await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=os.environ
        )
        for _ in range(workers)
    ]
    for child in children:
        await child.stdout.readline()  # it has imported everything and is waiting
    readings: list[tuple[int, int]] = []
    watching = (
        asyncio.create_task(follow_memory(task, [child.pid for child in children], readings)) if watched else None
    )
    began = time.perf_counter()
    for child in children:
        child.stdin.write(b"\n")
    assert [await child.wait() for child in children] == [0] * workers
    seconds = time.perf_counter() - began
    if watching:
        watching.cancel()
    return seconds, readings


def child(task: CrawlTask) -> None:
    """Run one worker process: wait for the start signal, then crawl until nothing is left."""
    print("ready", flush=True)
    sys.stdin.readline()
    run_async(work(crawl, task.server, [task.site], options=WorkerOptions(concurrency=CONCURRENCY)))


def main() -> None:
    """Crawl and print the measurements."""
    task = read_crawl_task()
    if task.option == "child":
        child(task)
        return
    workers, _, wish = task.option.partition(":")
    with tempfile.TemporaryDirectory(prefix="silkline-bench-") as folder:
        out = Path(folder) / "items.jsonl"
        seconds, readings = asyncio.run(race(task, int(workers), out, watched=wish == "memory"))
        items = [json.loads(line)["url"] for line in out.open()]
    assert len(items) == len(set(items)) == task.pages, f"{len(items)} items of {task.pages} pages"
    versions = {package: version(package) for package in ("silkline", "wreq", "selectolax", "redis", "hiredis")}
    print(json.dumps({"count": len(items), "seconds": seconds, "versions": versions, "memory": readings}))


if __name__ == "__main__":
    main()
