"""Real worker processes on a real site: politeness seen by the web server, and nothing lost however they die."""

import asyncio
import contextlib
import json
import random
import signal
import sqlite3
import subprocess
import sys

import pytest

from silkline import Frontier
from silkline.testing import Shop, SiteProcess
from tests.worker.child import shop_crawl


class Processes:
    """Worker processes that this test started."""

    def __init__(self, *arguments):
        self.command = [sys.executable, "-m", "tests.worker.child", *map(str, arguments)]
        self.running = []

    def start(self):
        self.running.append(subprocess.Popen(self.command, stdin=subprocess.DEVNULL))
        return self.running[-1]

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.running.remove(process)

    def end(self):
        for process in self.running:
            process.kill()
            process.wait()


async def prepare(url, crawl, site, delay, concurrency):
    """Create the crawl with the start page of every host."""
    settings = shop_crawl(crawl, delay, concurrency).arguments
    async with await Frontier.open(url, crawl=crawl, **settings) as frontier:
        await frontier.enqueue([site.at("/", number) for number in range(len(site.hosts))])


async def stats_of(url, crawl):
    async with await Frontier.open(url, crawl=crawl, create=False) as frontier:
        return await frontier.admin.stats(), await frontier.admin.dead()


async def test_four_processes_are_as_polite_as_one(valkey, crawl, tmp_path):
    delay, cap = 0.4, 2
    shop = Shop(pages=12, trouble=False)
    with SiteProcess(shop, hosts=4, latency=0.6) as site:
        await prepare(valkey.url, crawl, site, delay, cap)
        processes = Processes(valkey.url, crawl, delay, cap, tmp_path / "items.jsonl")
        try:
            workers = [processes.start() for _ in range(4)]
            assert [await asyncio.to_thread(worker.wait, 120) for worker in workers] == [0] * 4
        finally:
            processes.end()
        visits, hosts = site.visits, site.hosts
    for host in hosts:
        assert len(visits.to(host)) == 13  # the pages and one robots.txt
        assert (
            visits.smallest_gap(host) >= delay * 0.85
        )  # from its look at the clock to its first byte a worker takes time
        assert visits.greatest_concurrency(host) <= cap
    assert max(visits.greatest_concurrency(host) for host in hosts) == cap
    rows = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert len(rows) == 4 * shop.products


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20))])
async def test_workers_killed_at_random_lose_and_double_nothing(valkey, crawl, tmp_path, seed):
    """SIGKILL at random moments; the set stored is the set served, once each where the sink can upsert."""
    rng = random.Random(seed)
    shop = Shop(pages=64, trouble=False)
    with SiteProcess(shop, hosts=2, latency=0.05) as site:
        await prepare(valkey.url, crawl, site, 0, 8)
        lines, base = tmp_path / "items.jsonl", tmp_path / "items.db"
        processes = Processes(valkey.url, crawl, 0, 8, lines, f"sqlite:///{base}")
        try:
            for _ in range(rng.randint(2, 4)):
                victim = processes.start()
                if rng.random() < 0.5:
                    processes.start()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(victim.wait, rng.uniform(0.4, 1.5))
                processes.kill(victim)
            last = processes.start()
            assert await asyncio.to_thread(last.wait, 120) == 0
        finally:
            processes.end()
        expected = sorted(
            (host, item["sku"], item["title"], item["price"]) for host in site.hosts for item in shop.items
        )
    stats, dead = await stats_of(valkey.url, crawl)
    assert dead == []
    assert stats.conserved
    assert (stats.ready, stats.delayed, stats.leased) == (0, 0, 0)
    with contextlib.closing(sqlite3.connect(base)) as db:
        stored = sorted(db.execute("select host, sku, title, price from items"))
    assert stored == expected
    rows = {
        (row["host"], row["sku"], row["title"], row["price"]) for row in map(json.loads, lines.read_text().splitlines())
    }
    assert sorted(rows) == expected


async def test_a_page_that_kills_its_worker_is_buried_and_the_others_are_done(valkey, crawl, tmp_path):
    """Three crashes are enough."""
    code = (
        "import os, sys\nfrom tests.worker import child\n"
        "from silkline.runtime.event_loop import run_async\nfrom silkline.worker.process.process import work\nfrom silkline.worker.options import WorkerOptions\n"
        "crawl = child.shop_crawl(sys.argv[2], 0, 8)\n"
        "from silkline.worker.crawl.handlers import Handlers\ncrawl.handlers = Handlers()\n"
        "def parse(page):\n    if page.url.endswith('/product/3'): os._exit(9)\n    yield {'url': page.url}\n"
        "    yield page.follow(page.css('a[href]'))\n"
        "crawl.handler(parse)\n"
        "run_async(work(crawl, sys.argv[1], [sys.argv[3]], options=WorkerOptions(concurrency=1, lease=1.0)))\n"
    )
    shop = Shop(pages=22, trouble=False)
    out = tmp_path / "items.jsonl"
    with SiteProcess(shop) as site:
        await prepare(valkey.url, crawl, site, 0, 8)
        for _ in range(10):
            done = await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", code, valkey.url, crawl, str(out)], check=False, timeout=120
            )
            if done.returncode == 0:
                break
    assert done.returncode == 0
    _, (letter,) = await stats_of(valkey.url, crawl)
    assert letter.url.endswith("/product/3")
    assert "crash" in letter.reason
    assert len({json.loads(line)["url"] for line in out.read_text().splitlines()}) == 21
