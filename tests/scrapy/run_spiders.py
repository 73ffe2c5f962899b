"""Runs spiders of `tests.scrapy.spiders` in one process: the plan is JSON on the command line."""

from __future__ import annotations

import json
import sys

from scrapy.crawler import CrawlerProcess

from tests.scrapy.spiders import fed

plan = json.loads(sys.argv[1])
process = CrawlerProcess(plan["settings"])
for name, (kind, own) in plan["spiders"].items():
    spider = type(kind, (getattr(fed, kind),), {"name": name, "custom_settings": own, "__module__": fed.__name__})
    process.crawl(spider)
process.start()
