"""Requests with items in meta are stored: nothing is lost when a spider is stopped or killed."""

from __future__ import annotations

import random
import time

import pytest

from silkline.testing import LocalSite
from tests.scrapy.conftest import both_versions
from tests.scrapy.processes import lines, until

RUNS = [
    pytest.param(150, id="short"),
    *(pytest.param(400, id=f"run-{number}", marks=pytest.mark.long) for number in range(1, 11)),
]


@both_versions
@pytest.mark.parametrize("how", ["interrupt", "kill"])
@pytest.mark.parametrize("products", RUNS)
def test_a_spider_with_items_in_meta_continues_where_it_stopped(scrapy, out, version, how, products):
    settings = {"SCHEDULER_PERSIST": True, "SILKLINE_LEASE": 2, "CONCURRENT_REQUESTS": 4}
    dice, stopped = random.Random(), 0
    with LocalSite({"/": "a list", "/product/*": "<h1>title</h1>"}, latency=0.05) as site:
        command = ("crawl", "catalog", "-a", f"site={site.url}", "-a", f"products={products}")
        while stopped < 3:
            run = scrapy(*command, settings=settings, version=version)
            before = len(lines(out))
            until(lambda: len(lines(out)) > before or not run.running)  # noqa: B023
            time.sleep(dice.uniform(0, 0.2))
            if not run.running:
                break  # it was faster
            getattr(run, how)()
            run.wait()
            stopped += 1
            assert "ERROR" not in run.log, run.log
        last = scrapy(*command, settings=settings, version=version)
        assert last.wait() == 0, last.log
        assert "ERROR" not in last.log, last.log
    assert stopped, "the first run has crawled everything"
    found = {item["number"]: item for item in lines(out)}
    lost = set(range(products)) - found.keys()
    assert not lost, f"{len(lost)} of {products} products are lost"
    assert all(item["name"] == f"product {number}" and item["title"] == "title" for number, item in found.items())
