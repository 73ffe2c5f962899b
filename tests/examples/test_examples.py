"""Every example runs as its reader would run it: a process of its own, in an empty directory, without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.embedded.processes import remove_when_stopped

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run():
    """Run an example; answers the lines it printed. On a machine that is too slow for a delay, workers warn of it."""
    folder = Path(tempfile.mkdtemp(prefix="silk-"))

    def run_(name):
        done = subprocess.run(
            [sys.executable, "-W", "error", EXAMPLES / name],
            capture_output=True,
            text=True,
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name != "SILKLINE_REDIS"},
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if "start windows in a row" not in line] == []
        return done.stdout.splitlines()

    yield run_
    remove_when_stopped(folder)


def test_every_example_is_tested_and_short():
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    tested = set(re.findall(r'run\("(\w+\.py)"\)', Path(__file__).read_text()))
    assert programs == tested
    assert all(len((EXAMPLES / name).read_text().splitlines()) <= 60 for name in programs)


def test_quickstart_follows_links_and_a_second_run_finds_all_done(run):
    first = run("quickstart.py")
    assert first[0] == "added refused"
    assert first[1] == "https://books.example/: 2 links, 2 of them new"
    assert len(first) == 9
    assert first[-1] == "7 pages done, 7 URLs seen, 0 dead"
    assert run("quickstart.py") == ["seen refused", "7 pages done, 7 URLs seen, 0 dead"]


def test_sync_queue_retries_and_gives_up(run):
    for _ in range(2):
        lines = run("sync_queue.py")
        assert sorted(lines[:4]) == [
            "https://shop.example/item/3: timed out; trying again",
            "https://shop.example/item/5: connection refused; giving up",
            "https://shop.example/item/5: connection refused; trying again",
            "https://shop.example/item/5: connection refused; trying again",
        ]
        assert lines[4:] == [
            "7 done, 1 dead",
            "dead: https://shop.example/item/5: connection refused",
        ]


def test_polite_fleet_keeps_one_pace(run):
    lines = run("polite_fleet.py")
    assert lines[0] == "30 pages by 3 processes"
    rows = [re.fullmatch(r"(\w+)\.example: 10 pages, never less than ([\d.]+) s apart", line) for line in lines[1:]]
    assert [row[1] for row in rows] == ["calm", "slow", "steady"]
    assert all(float(row[2]) >= 0.1 for row in rows)


def test_custom_sink_holds_an_item_once(run):
    for _ in range(2):
        assert run("custom_sink.py") == [
            "2 items in books/",
            '{"url": "https://books.example/emma", "title": "Emma, volume 2"}',
        ]


def test_crawl_shop_stores_what_the_shop_serves_each_time(run):
    for _ in range(2):
        assert run("crawl_shop.py") == ["63 pages, 60 items", "exactly what the shop serves: True"]


def test_embedded_dashboard_asks_for_its_token(run):
    for _ in range(2):
        assert run("embedded_dashboard.py") == [
            "/: 200 my own app",
            "/silk/: 401 Authentication required: sign in with the token.",
            "/silk/crawls/books: 200 books · Silkline",
        ]
