"""Pages that block, kill or fill their worker: it is ended, another one goes on, and only that page is buried."""

from __future__ import annotations

import re

import pytest

from silkline import SyncFrontier
from silkline.worker.crawl.loading import load_crawl
from tests.cli.sites import chain, lines_of

DEEDS = {
    "it sleeps": "time.sleep(600)",
    "it holds the lock of Python": "ctypes.PyDLL(None).sleep(600)",
    "it matches": 're.match("(a+)+$", "a" * 60 + "b")',  # which holds the lock too
    "it computes": "while True: pass",
    "it kills": "os.kill(os.getpid(), signal.SIGKILL)",
    "it aborts": "os.abort()",
    "it exits": "os._exit(3)",
    "it fills memory": "kept.append(bytearray(400 * 2**20)); await asyncio.sleep(60)",
}
HANDLER = """
import asyncio, ctypes, os, re, signal, time
kept = []

@crawl.handler
async def parse(page):
    if page.url.endswith("/7"):
        {deed}
    yield {{"path": page.url.partition("/")[2].partition("/")[2].partition("/")[2]}}
    yield page.follow(page.css("a"))
"""


@pytest.fixture
def crawl_with(silkline, valkey, site, write, workplace, crawl):
    """Runs a crawl of 40 pages, of which number 7 does what it is told; answers what was said, what is dead and done."""

    def run(deed, *options, workers=1):
        file = write(site(chain(40), latency=0.02), HANDLER.format(deed=deed), concurrency=16)
        limits = ("--blocked-limit", "2", "--lease", "10", "--workers", str(workers))
        answer = silkline("run", file, "-o", "items.jsonl", *limits, *options, "--redis", valkey.url, timeout=120)
        with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
            dead, stats = frontier.admin.dead(), frontier.admin.stats()
        return answer, dead, stats, lines_of(workplace / "items.jsonl")

    return run


@pytest.mark.parametrize(
    ("what", "workers"),
    [
        ("it sleeps", 2),
        ("it holds the lock of Python", 1),
        ("it kills", 1),
        pytest.param("it matches", 1, marks=pytest.mark.long),
        pytest.param("it computes", 2, marks=pytest.mark.long),
        pytest.param("it aborts", 1, marks=pytest.mark.long),
        pytest.param("it exits", 1, marks=pytest.mark.long),
    ],
)
def test_only_the_page_that_takes_workers_down_is_buried(crawl_with, what, workers):
    answer, dead, stats, items = crawl_with(DEEDS[what], workers=workers)
    assert answer.code == 5, answer.err
    [letter] = dead
    assert (letter.url.rpartition("/")[2], letter.crashes) == ("7", 3)
    assert (stats.done, stats.leased, stats.pending) == (40, 0, 0)
    assert len({item["path"] for item in items}) == 40
    said = re.findall(r"worker \d (.*)", answer.err)
    assert len(said) == 3
    for line in said:
        assert "/7" in line
    if what in ("it sleeps", "it holds the lock of Python", "it matches", "it computes"):
        assert re.search(r"was blocked for \d s while handling http://\S+/7 \(books.py:\d+\); it was ended", said[0])
        assert re.search(r"blocked .*\d s.*\(books.py:\d+\)", letter.reason)
    elif what == "it kills":
        assert "died (SIGKILL, often sent by the system when memory runs out) while handling" in said[0]
        assert "SIGKILL" in letter.reason


def test_a_page_that_fills_memory_ends_its_worker_and_is_buried(crawl_with):
    answer, dead, stats, items = crawl_with(DEEDS["it fills memory"], "--memory-limit", "300M")
    assert answer.code == 5, answer.err
    assert [letter.url.rpartition("/")[2] for letter in dead] == ["7"]
    assert (stats.done, len({item["path"] for item in items})) == (40, 40)
    assert re.search(
        r"worker 1 used \S+ [MG]iB of memory, more than its limit of 300 MiB.*another one started", answer.err
    )


def test_a_worker_without_a_parent_gives_its_pages_back_and_ends(silkline, valkey, site, write, frontier, workplace):
    """It claims all pages at once: the reply to a claim that it sends while it is blocked would be lost."""
    file = write(site(chain(40), latency=0.02), HANDLER.format(deed=DEEDS["it sleeps"]), concurrency=64)
    crawl = load_crawl(str(workplace / file))
    frontier(**crawl.arguments).enqueue(crawl.listed_starts())
    answer = silkline("worker", file, "--redis", valkey.url, "--blocked-limit", "2", "--lease", "600")
    assert answer.code == 1
    assert re.search(
        r"this worker was blocked for [2-9] s while handling http://\S+/7 \(books.py:\d+\); .* it exits", answer.err
    )
    stats = frontier().admin.stats()
    assert stats.leased == 0
    [lease] = frontier().claim(40)  # alone, before all others
    assert (lease.url.rpartition("/")[2], lease.crashes) == ("7", 1)
