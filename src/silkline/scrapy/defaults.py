"""The default of every setting of scrapy-redis, under the names of ``scrapy_redis.defaults``. The plugin reads them here."""

from __future__ import annotations

from silkline.scrapy.connection import DEFAULT_PARAMS, REDIS_CLS

__all__ = ["REDIS_CLS"]

DUPEFILTER_KEY = "dupefilter:%(timestamp)s"
PIPELINE_KEY = "%(spider)s:items"
STATS_KEY = "%(spider)s:stats"
REDIS_ENCODING = "utf-8"
REDIS_PARAMS = DEFAULT_PARAMS
REDIS_CONCURRENT_REQUESTS = 16
SCHEDULER_QUEUE_KEY = "%(spider)s:requests"
SCHEDULER_QUEUE_CLASS = "silkline.scrapy.queue.PriorityQueue"
SCHEDULER_DUPEFILTER_KEY = "%(spider)s:dupefilter"
SCHEDULER_DUPEFILTER_CLASS = "silkline.scrapy.dupefilter.RFPDupeFilter"
SCHEDULER_PERSIST = False
START_URLS_KEY = "%(name)s:start_urls"
START_URLS_AS_SET = False
START_URLS_AS_ZSET = False
REDIS_KEY_CHECK_INTERVAL = None
MAX_IDLE_TIME = 0
