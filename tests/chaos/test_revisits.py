"""Pages that are visited again, and runs at an interval, while their processes are killed: nothing is lost, and nothing doubled."""

from __future__ import annotations

import random
from collections import Counter

import psutil
import pytest

from silkline import SyncFrontier
from silkline.testing import LocalSite, SiteResponse
from tests.cli.processes import Running
from tests.cli.sites import chain, wait_until, write_crawl

PAGES = 40


@pytest.fixture
def run(valkey, tmp_path):
    """Starts ``silkline run``."""
    running = []

    def start(*arguments):
        running.append(Running("run", *arguments, "--redis", valkey.url, cwd=tmp_path))
        return running[-1]

    yield start
    for one in running:
        one.close()


def stored(frontier):
    """The URL of every request that waits or is in progress."""
    return [
        one.url for state in ("ready", "delayed", "leased") for one in frontier.admin.requests(state, limit=1000)[0]
    ]


@pytest.mark.long
def test_workers_that_are_killed_between_and_during_visits_lose_no_page_and_queue_none_twice(
    run, valkey, crawl, tmp_path
):
    dice, etag = random.Random(5), '"1"'

    def page(visit):
        same = visit.headers.get("if-none-match") == etag
        return SiteResponse("" if same else "page", status=304 if same else 200, headers={"ETag": etag}, delay=0.02)

    with LocalSite({**chain(PAGES), **{f"/{number}": page for number in range(1, PAGES + 1)}}) as site:
        code = "\n@crawl.handler(revisit='1s')\ndef page(page):\n    yield page.follow(page.css('a'))\n"
        file = write_crawl(tmp_path / "books.py", crawl, [site.url], code)
        process = run(file, "--workers", "3", "--lease", "2")
        wait_until(lambda: len(site.visits.to(path=f"/{PAGES}")) >= 2)
        for _ in range(4):  # a run gives up after more in a short time
            workers = [one for one in psutil.Process(process.process.pid).children() if "worker" in one.cmdline()]
            if workers:
                dice.choice(workers).kill()
            seen = len(site.visits)
            wait_until(lambda seen=seen: len(site.visits) > seen + PAGES)
        before = Counter(visit.path for visit in site.visits)
        wait_until(lambda: all(
            len(site.visits.to(path=f"/{number}")) >= before[f"/{number}"] + 2 for number in range(1, PAGES + 1)
        ))  # fmt: skip
        process.process.terminate()
        assert process.end() == 143
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        stats = frontier.admin.stats()
        assert (stats.dead, stats.conserved) == (0, True)
        assert sorted(stored(frontier)) == sorted(
            [site.url, *(site.at(f"/{number}") for number in range(1, PAGES + 1))]
        )


@pytest.mark.long
def test_a_run_whose_process_is_killed_is_continued_by_another_one(run, valkey, crawl, tmp_path):
    gate = []
    slow = {"/2": lambda _: "open" if gate else SiteResponse("closed", status=503, delay=0.2)}
    with LocalSite(chain(2, **slow)) as site:
        file = write_crawl(tmp_path / "books.py", crawl, [site.url], retries=[0.2] * 90)
        first = run(file, "--every", "1h")
        wait_until(lambda: len(site.visits.to(path="/2")) >= 2)
        second = run(file, "--every", "1h")
        second.wait_for("runs every 1 h")
        first.process.kill()
        gate.append(True)
        second.wait_for("finished")
        second.process.terminate()
        assert second.end() == 143
        assert (len(site.visits.to(path="/")), len(site.visits.to(path="/1"))) == (1, 1)
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        assert (frontier.admin.stats().done, frontier.admin.stats().dead) == (3, 0)
        assert len([entry for entry in frontier.admin.audit() if entry.what == "start run"]) == 1
