"""`await crawl.run(…)` where an event loop runs already, and `silkline.run` elsewhere."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from textwrap import dedent

import pytest

import silkline
from silkline import Frontier
from silkline.errors import ConfigError
from silkline.testing import LocalSite


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def titles(new_crawl):
    """Makes a crawl that stores the paths of its pages."""

    def make(start):
        crawl = new_crawl(start)

        @crawl.handler
        async def every_page(page):
            yield {"url": page.url}
            yield page.follow(page.css("a"))

        return crawl

    return make


PAGES = {"/": "<a href=/1>1</a><a href=/2>2</a>", "/*": "x"}


async def test_a_crawl_runs_in_a_loop_that_runs_and_leaves_its_process_alone(serve, titles, valkey, tmp_path):
    """A web server has handlers of signals, which must stay as they are."""
    site = await serve(PAGES)
    out = tmp_path / "x.jsonl"

    async def state():
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)], gc.get_threshold()

    before = await state()
    seen = []
    crawl = titles(site.url)

    @crawl.handler(name="probe")
    async def probe(page):
        seen.append(await state())

    crawl.on_start(lambda: silkline.Request(site.at("/probe"), handler="probe"))
    summary = await crawl.run(str(out), redis=valkey.url)
    assert (summary.pages, summary.items, summary.finished) == (4, 3, True)
    assert {item["url"] for item in lines_of(out)} == {site.at(path) for path in ("/", "/1", "/2")}
    assert seen == [before] == [await state()]
    again = await crawl.run(str(out), redis=valkey.url)
    assert (again.pages, again.resumed) == (0, True)
    fresh = await crawl.run(redis=valkey.url, fresh=True)
    assert (fresh.pages, fresh.resumed) == (4, False)


async def test_a_run_that_is_cancelled_gives_back_its_pages_and_is_continued(serve, titles, valkey, tmp_path):
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slow(visit):
        reached.set()
        await go_on.wait()
        return "x"

    site = await serve({**PAGES, "/2": slow})
    crawl, out = titles(site.url), str(tmp_path / "x.jsonl")
    running = asyncio.create_task(crawl.run(out, redis=valkey.url))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with await Frontier.open(valkey.url, crawl=crawl.name) as frontier:
        stats = await frontier.admin.stats()
        assert (stats.leased, stats.ready + stats.delayed + stats.done) == (0, 3)
    go_on.set()
    summary = await crawl.run(out, redis=valkey.url)
    assert (summary.finished, summary.resumed) == (True, True)
    assert {item["url"] for item in lines_of(tmp_path / "x.jsonl")} == {site.at(path) for path in ("/", "/1", "/2")}


async def test_two_crawls_run_side_by_side_but_one_not_twice(serve, titles, new_crawl, valkey, tmp_path):
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slow(visit):
        reached.set()
        await go_on.wait()
        return "x"

    site = await serve({"/": slow, "/other": "x"})
    crawl, other = titles(site.url), titles(site.at("/other"))
    other.name += "-other"
    first = asyncio.create_task(crawl.run(redis=valkey.url))
    await reached.wait()
    with pytest.raises(ConfigError, match=r"runs in this process already; await that run first"):
        await crawl.run(redis=valkey.url)
    assert (await other.run(redis=valkey.url)).pages == 1
    go_on.set()
    assert (await first).pages == 1


async def test_run_says_what_to_write_where_a_loop_runs(titles):
    crawl = titles("http://127.0.0.1/")
    with pytest.raises(ConfigError, match=r"one runs here already .* write: await crawl.run\(…\)"):
        silkline.run(crawl)


def test_run_needs_a_crawl():
    with pytest.raises(ConfigError, match=r"run takes a Crawl, got 'books.py'; to run a file: silkline run FILE"):
        silkline.run("books.py")


def test_run_works_in_a_thread(titles, valkey):
    """Only the main thread may handle signals."""
    with LocalSite(PAGES) as site:
        crawl, summaries = titles(site.url), []
        thread = threading.Thread(target=lambda: summaries.append(silkline.run(crawl, redis=valkey.url)))
        thread.start()
        thread.join()
    assert [summary.pages for summary in summaries] == [3]


def test_a_web_application_crawls_and_ends_at_sigterm(valkey, crawl, tmp_path):
    """FastAPI with uvicorn: the crawl runs beside the requests, and its server still ends as it does without."""
    program = f"""
    import asyncio
    from contextlib import asynccontextmanager, suppress

    import uvicorn
    from fastapi import FastAPI

    from silkline import Crawl, FetchOptions, Politeness
    from silkline.testing import LocalSite

    async def forever(visit):
        print("crawling", flush=True)
        await asyncio.Event().wait()

    @asynccontextmanager
    async def lifespan(app):
        async with LocalSite({{"/": forever}}) as site:
            crawl = Crawl({crawl!r}, site.url, politeness=Politeness(delay=0), fetching=FetchOptions(allow_private=True))
            crawl.handler(lambda_page)
            task = asyncio.create_task(crawl.run(redis={valkey.url!r}))
            yield
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            print("given back", flush=True)

    def lambda_page(page):
        return None

    uvicorn.run(FastAPI(lifespan=lifespan), port=0, log_level="warning")
    """
    server = subprocess.Popen([sys.executable, "-c", dedent(program)], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert server.stdout.readline() == "crawling\n"
        os.kill(server.pid, signal.SIGTERM)
        assert server.stdout.read() == "given back\n"
        assert server.wait(60) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
