"""The scheduler for Scrapy's command-line tools: Scrapy's own, in memory.

``scrapy parse``, ``fetch``, ``view``, ``shell``, ``check`` and ``bench`` download a few pages for one user. They must not take
requests from the spider's crawl, nor store any there.
"""

from __future__ import annotations

import logging

from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.misc import load_object

log = logging.getLogger(__name__)


def tool_scheduler(crawler: Crawler) -> Scheduler:
    """Return a scheduler that keeps requests and fingerprints in memory, even if the project has a JOBDIR or its own filter."""
    log.debug("Silkline keeps the requests of this Scrapy tool in memory: the crawl of the spider is not opened")
    settings = crawler.settings
    debug = settings.getbool("DUPEFILTER_DEBUG")
    return Scheduler(
        dupefilter=RFPDupeFilter(debug=debug, fingerprinter=crawler.request_fingerprinter),
        mqclass=load_object(settings["SCHEDULER_MEMORY_QUEUE"]),
        stats=crawler.stats,
        pqclass=load_object(settings["SCHEDULER_PRIORITY_QUEUE"]),
        crawler=crawler,
    )
