"""Which source files run for one page, from `enqueue` to *done*: ``python -m tests.architecture.trace`` prints them.

A real crawl of a real page, on a real server. A file counts when one of its functions runs; importing it does not count.
`enqueue` is traced right after the frontier was opened, so that loading the script counts. The page is traced with a worker
that is already running and has the robots.txt of the host: what it does for itself, such as its heartbeat, is no part of the
page's path. Several requests are traced, and a file counts if every one of them needed it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from pathlib import Path

import silkline
from silkline import Crawl, FetchOptions, Frontier, Politeness, Worker
from silkline.sinks import open_sink
from silkline.testing import LocalSite
from tests.servers import Server

SOURCE = Path(silkline.__file__).parent
PAGES = 8


class Trace:
    """Collects the source files whose functions run while it is entered, and the names of those functions."""

    def __init__(self):
        self.files = {}

    def __enter__(self):
        sys.setprofile(self.note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def note(self, frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            name = str(Path(code.co_filename).relative_to(SOURCE))
            if code.co_name != "<module>" and not name.startswith("testing/"):
                self.files.setdefault(name, {})[code.co_qualname] = None


def a_crawl():
    crawl = Crawl("traced", (), politeness=Politeness(delay=0), fetching=FetchOptions(allow_private=True))

    @crawl.handler
    def parse(page):
        yield {"url": page.url}
        yield page.follow("/next")

    return crawl


async def trace_enqueue(url, shards):
    async with await Frontier.open(url, crawl=f"traced-{shards}", shards=shards) as frontier:
        with Trace() as trace:
            await frontier.enqueue("https://shop.example/")
    return trace


async def trace_pages(server, site, folder, shards):
    """A trace per page; each page has an item and a link that is known."""
    name = f"pages-{shards}"
    ledgers = [f"silkline:{{{name}:{shard}}}:ledger" for shard in range(shards)]
    crawl, threads, traces = a_crawl(), Trace(), []
    threading.setprofile(threads.note)  # the thread of the sink, which starts with the first page
    async with await Frontier.open(server.url, crawl=name, shards=shards, **crawl.arguments) as frontier:
        worker = Worker(crawl, frontier, sinks=[open_sink(f"{folder}/items.jsonl")], forever=True)
        running = asyncio.create_task(worker.run())
        async with await Frontier.open(server.url, crawl=name) as other:
            for n in range(PAGES):
                threads.files = {}
                with Trace() as trace:
                    await other.enqueue(site.at(f"/{n}"))
                    await until_done(server, ledgers, n + 2, worker)
                traces.append({**trace.files, **threads.files})
        worker.stop()
        await running
    threading.setprofile(None)
    return traces[1:]  # the first page fetches robots.txt, and finds a link that is new


async def until_done(server, keys, pages, worker):
    """Wait until the server has so many completed pages, and the worker has read the reply."""
    with server.client() as client:
        while sum(int(client.hget(key, "done") or 0) for key in keys) < pages or worker.held:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def trace_all(shards=1):
    """The files of `enqueue`, and those of a whole page in a crawl with *shards*, each with the functions that ran."""
    server = Server("valkey").start()
    try:
        enqueues = [(await trace_enqueue(server.url, shards)).files for _ in range(3)]
        async with LocalSite({"/*": '<a href="/next">next</a>'}) as site:
            with tempfile.TemporaryDirectory() as folder:
                pages = await trace_pages(server, site, folder, shards)
    finally:
        server.remove()
    enqueue = always(enqueues)
    return enqueue, {**enqueue, **always(pages)}


def always(traces):
    """The files that ran in every trace. On a busy machine a call may be slow, and be repeated."""
    names = set.intersection(*(set(trace) for trace in traces))
    return {name: ran for name, ran in traces[0].items() if name in names}


def report(title, files):
    lines = [f"  {name}: {', '.join(ran)}" for name, ran in files.items()]
    return "\n".join([f"{title}: {len(files)} files", *lines])


if __name__ == "__main__":
    enqueue, page = asyncio.run(trace_all())
    print(report("enqueue", enqueue))
    print(report("a page, from enqueue to done", page))
