"""What holds where a project says nothing, under the names of ``scrapy_redis.defaults``."""

from __future__ import annotations

from silkline.scrapy.connection import DEFAULT_PARAMS, REDIS_CLS
from silkline.scrapy.pipelines import PIPELINE_KEY
from silkline.scrapy.spiders import START_URLS_KEY
from silkline.scrapy.stats import STATS_KEY

__all__ = ["PIPELINE_KEY", "REDIS_CLS", "START_URLS_KEY", "STATS_KEY"]

DUPEFILTER_KEY = "dupefilter:%(timestamp)s"
REDIS_ENCODING = "utf-8"
REDIS_PARAMS = DEFAULT_PARAMS
REDIS_CONCURRENT_REQUESTS = 16
SCHEDULER_QUEUE_KEY = "%(spider)s:requests"
SCHEDULER_QUEUE_CLASS = "silkline.scrapy.queue.PriorityQueue"
SCHEDULER_DUPEFILTER_KEY = "%(spider)s:dupefilter"
SCHEDULER_DUPEFILTER_CLASS = "silkline.scrapy.dupefilter.RFPDupeFilter"
SCHEDULER_PERSIST = False
START_URLS_AS_SET = False
START_URLS_AS_ZSET = False
REDIS_KEY_CHECK_INTERVAL = None
MAX_IDLE_TIME = 0
