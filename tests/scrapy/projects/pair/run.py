"""Runs both spiders in this process: ``run.py SITE REDIS_URL``."""

import sys

from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

settings = get_project_settings()
settings.set("REDIS_URL", sys.argv[2], "cmdline")
process = CrawlerProcess(settings)
for name in ("broad", "deep"):
    process.crawl(name, site=sys.argv[1])
process.start()
