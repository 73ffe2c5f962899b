"""One crawl of a shop by one worker process: live, live with an archive, or from that archive.

The option is ``live``, ``polite`` (eight pages of the site at a time), ``write:ARCHIVE`` or ``read:ARCHIVE``. Reading includes the index of the archive.
"""

import json
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.crawl_side import crawl
from benchmarks.crawl_task import CONCURRENCY, CrawlTask, read_crawl_task
from silkline import Frontier, Politeness
from silkline.fetch.archive.archive_fetcher import most_block
from silkline.fetch.archive.index import build_index
from silkline.runtime.event_loop import run_async
from silkline.worker.crawl.archived import index_in, replay
from silkline.worker.options import WorkerOptions
from silkline.worker.process.process import work


async def start(task: CrawlTask) -> None:
    """Create the crawl and enqueue its start URL."""
    async with await Frontier.open(task.server, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(task.site)


async def crawl_once(task: CrawlTask, out: Path, folder: Path) -> float:
    """Return the seconds of a crawl."""
    how, _, archive = task.option.partition(":")
    outs = [str(out), archive] if how == "write" else [str(out)]
    if how == "polite":
        crawl.politeness = Politeness(delay=0, concurrency=8)
    began = time.perf_counter()
    if how == "read":
        index = index_in(folder, crawl.name, [Path(archive)])
        build_index([Path(archive)], index, most_block(crawl.fetching.limits))
        replay(crawl, index)
    indexed = time.perf_counter() - began
    await start(task)
    began = time.perf_counter()
    await work(crawl, task.server, outs, options=WorkerOptions(concurrency=CONCURRENCY))
    return indexed + time.perf_counter() - began


def main() -> None:
    """Crawl and print the measurements."""
    task = read_crawl_task()
    with tempfile.TemporaryDirectory(prefix="silkline-bench-") as folder:
        out = Path(folder) / "items.jsonl"
        before = time.process_time()
        seconds = run_async(crawl_once(task, out, Path(folder)))
        cpu = time.process_time() - before
        items = [json.loads(line)["url"] for line in out.open()]
    assert len(items) == len(set(items)) == task.pages, f"{len(items)} items of {task.pages} pages"
    versions = {package: version(package) for package in ("silkline", "wreq", "selectolax", "redis", "hiredis")}
    print(json.dumps({"count": len(items), "seconds": seconds, "cpu": cpu, "versions": versions}))


if __name__ == "__main__":
    main()
