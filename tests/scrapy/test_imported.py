"""What was imported from scrapy-redis is crawled by a real spider, and what was seen there is not crawled again."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import scrapy

from silkline import SyncFrontier
from silkline.frontier.user_keys.import_source import ImportSource
from silkline.scrapy.dupefilter import RFPDupeFilter
from silkline.scrapy.migrate.importing import ImportSummary, QueueImport
from silkline.testing import LocalSite

PROJECT = """
import sys

import scrapy
from scrapy.crawler import CrawlerProcess


class Shop(scrapy.Spider):
    name = "shop"

    def parse_item(self, response, page):
        print("crawled", response.url, page, response.meta["depth"], flush=True)
        yield from response.follow_all(css="a", callback=self.parse_link)

    def parse_link(self, response):
        print("found", response.url, flush=True)


url, crawl = sys.argv[1:]
process = CrawlerProcess({
    "ADDONS": {"silkline.scrapy.Addon": 100},
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "SCHEDULER_PERSIST": True,
    "SILKLINE_ALLOW_PRIVATE": True,
    "SILKLINE_CRAWL": crawl,
    "REDIS_URL": url,
    "LOG_LEVEL": "WARNING",
})
process.crawl(Shop)
process.start()
"""


class Shop(scrapy.Spider):
    name = "shop"

    def parse_item(self, response, page): ...


def test_a_spider_continues_where_scrapy_redis_stopped(valkey, crawl, tmp_path):
    spider, theirs = Shop(), RFPDupeFilter()
    links = '<a href="/1">waits</a><a href="/done">was crawled</a><a href="/new">is new</a>'
    with LocalSite({"/1": links, "/2": links, "/done": "x", "/new": "x"}) as site, valkey.client() as client:
        waiting = [
            scrapy.Request(site.at(f"/{n}"), callback=spider.parse_item, cb_kwargs={"page": n}, meta={"depth": 3})
            for n in (1, 2)
        ]
        for request in waiting:
            client.zadd(f"{crawl}:requests", {pickle.dumps(request.to_dict(spider=spider), -1): -request.priority})
        for request in (*waiting, scrapy.Request(site.at("/done"))):
            client.sadd(f"{crawl}:dupefilter", theirs.request_fingerprint(request))
        with ImportSource.open(valkey.url) as source, SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
            summary = ImportSummary("shop", crawl, created=True, move=True, dry_run=False)
            QueueImport(source, frontier, summary, lambda *_: None).run(f"{crawl}:requests", f"{crawl}:dupefilter")
            assert (summary.added, summary.marked) == (2, 3)
            frontier.admin.set_host(site.hosts[0], delay=0.0, concurrency=8)
        program = tmp_path / "project.py"
        program.write_text(PROJECT)
        done = subprocess.run(
            [sys.executable, program, valkey.url, crawl],
            capture_output=True,
            text=True,
            timeout=100,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said = sorted(done.stdout.splitlines())
        assert said == [f"crawled {site.at('/1')} 1 3", f"crawled {site.at('/2')} 2 3", f"found {site.at('/new')}"], (
            done.stderr
        )
        assert sorted(Path(visit.path).name for visit in site.visits) == ["1", "2", "new"]
