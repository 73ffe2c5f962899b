"""The Scrapy project among the examples, run as its reader would run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from silkline.testing import Shop, SiteProcess
from tests.embedded.processes import remove_when_stopped

PROJECT = Path(__file__).parents[2] / "examples" / "scrapy"


@pytest.fixture
def folder():
    """A copy of the project, with a path short enough for a server's socket."""
    place = Path(tempfile.mkdtemp(prefix="silk-"))
    shutil.copytree(PROJECT, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".silkline"))
    yield place
    remove_when_stopped(place)


def test_the_project_crawls_a_shop_and_a_second_run_finds_all_done(folder):
    def crawl(out):
        command = [
            sys.executable,
            "-m",
            "scrapy",
            "crawl",
            "shop",
            "-a",
            f"start={site.url}",
            "-o",
            out,
            "-L",
            "WARNING",
        ]
        environment = {name: value for name, value in os.environ.items() if name != "SILKLINE_REDIS"}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=90, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return [json.loads(line) for line in (folder / out).read_text().splitlines()]

    with SiteProcess(Shop(pages=63, trouble=False)) as site:
        items = crawl("products.jsonl")
        assert len(items) == len({item["sku"] for item in items}) > 50
        assert all(item["title"] and item["price"] for item in items)
        paths = [visit.path for visit in site.visits if visit.path != "/robots.txt"]
        assert len(paths) == len(set(paths)) == 63
        site.forget()
        assert crawl("again.jsonl") == []
        assert {visit.path for visit in site.visits} <= {"/", "/robots.txt"}, "start URLs are not filtered"
