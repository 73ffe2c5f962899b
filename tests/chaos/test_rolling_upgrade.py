"""A rolling upgrade: workers of the version before, and of this one, at one crawl that is half done.

The versions store requests in different forms, so they do not share a crawl: the first claim of a worker of this version takes it
over. Workers of the version before end with one sentence, their pages come back, and nothing is lost. Commands that only look do
not take it over.

The version before is taken from the history of this repository, as it was. A clone without it cannot run these tests, and they
fail there rather than say nothing. `tests/contract/test_earlier_version.py` continues stored crawls without the history.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest

from silkline import SyncFrontier
from silkline.frontier.store.keys import CrawlKeys
from silkline.testing import LocalSite
from tests.cli.processes import Running
from tests.held import held
from tests.scrapy.feeding import until

pytestmark = pytest.mark.long

BEFORE = "5f89ad0e51fd64dbd5505512f1635b9c4871e703"
"""The last commit of the version before: schema 1."""
ROOT = Path(__file__).parents[2]
PAGES = 400
FILE = """
from silkline import Crawl, Politeness

crawl = Crawl({name!r}, start=[{start!r}], politeness=Politeness(delay=0, concurrency=8))


@crawl.handler
def parse(page):
    yield {{"url": page.url}}
    yield page.follow(page.css("a"))
"""


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """The source of the version before, for PYTHONPATH."""
    archive = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.fail(
            f"the version before, commit {BEFORE[:7]}, is not in this clone; fetch it: git fetch --unshallow "
            f"({archive.stderr.decode().strip()})"
        )
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as source:
        source.extractall(folder, filter="data")
    return folder / "src"


def page(visit):
    """A page with links to the next ones; there are PAGES of them."""
    number = int(visit.path.strip("/"))
    links = range(number * 4 + 1, min(number * 4 + 5, PAGES))
    return "".join(f"<a href=/{link}>{link}</a>" for link in links) or "the end"


@pytest.fixture
def go():
    """The site holds further pages back until this is set."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def site(go):
    with LocalSite(held({"/robots.txt": "User-agent: *", "/*": page}, go, free=PAGES // 4)) as one:
        yield one
        go.set()


@pytest.fixture
def start(tmp_path, valkey, crawl, site, before):
    """Starts commands of either version on the crawl of this test, each with an output of its own."""
    (tmp_path / "shop.py").write_text(FILE.format(name=crawl, start=site.at("/0")))
    running = []

    def run(version, *arguments):
        variables = {"PYTHONPATH": str(before)} if version == "before" else {}
        running.append(Running(*arguments, "--redis", valkey.url, cwd=tmp_path, **variables))
        return running[-1]

    yield run
    for one in running:
        one.close()


def worker(start, version, output):
    return start(version, "worker", "shop.py", "-o", output, "--allow-private", "--concurrency", 8, "--lease", 5)


def schema(valkey, crawl):
    with valkey.client() as client:
        return client.hget(CrawlKeys(crawl).shard(0).ledger, "schema")


def urls(folder):
    """The URLs of all items, in all outputs."""
    return [json.loads(line)["url"] for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]


def test_a_worker_of_this_version_takes_over_and_nothing_is_lost(start, site, go, crawl, valkey, tmp_path):
    old_run = start("before", "run", "shop.py", "-o", "run.jsonl", "--allow-private", "--concurrency", 8, "--lease", 5)
    until(lambda: len(site.visits) > PAGES // 4)
    looking = start("now", "status", crawl, "--json")
    assert looking.end() == 0, looking.err
    assert json.loads(looking.out)["status"] == "running"
    old_worker = worker(start, "before", "old.jsonl")
    assert schema(valkey, crawl) == b"1", "a look has changed the crawl"

    new = worker(start, "now", "new.jsonl")
    old_run.wait_for("schema 2")
    go.set()
    assert new.end() == 0, new.err
    assert schema(valkey, crawl) == b"2"
    for old in (old_run, old_worker):
        code = old.end()
        assert code not in (0, -9), old.err
        assert "error: the crawl was stored with schema 2" in old.err
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        stats, report = frontier.admin.stats(), frontier.admin.fsck()
    assert (stats.done, stats.ready, stats.delayed, stats.leased, stats.dead) == (PAGES, 0, 0, 0, 0)
    assert stats.conserved
    assert report.sound, report
    assert set(urls(tmp_path)) == {site.at(f"/{number}") for number in range(PAGES)}


def test_a_worker_of_the_version_before_does_not_join_a_crawl_of_this_one(start, site, go, crawl):
    go.set()
    made = start("now", "enqueue", crawl, site.at("/0"), "--delay", 0, "--concurrency", 8)
    assert made.end() == 0, made.err
    old = worker(start, "before", "old.jsonl")
    assert old.end() == 2
    assert "the crawl was stored with schema 2, this Silkline knows 1: upgrade it" in old.err
    new = worker(start, "now", "new.jsonl")
    assert new.end() == 0, new.err
