"""The Scrapy plugin: a project of scrapy-redis runs on a frontier that loses nothing.

::

    ADDONS = {"silkline.scrapy.Addon": 100}      # settings.py
    from silkline.scrapy import RedisSpider      # instead of scrapy_redis.spiders

The names that such projects use are here, and in modules of the names they know.
"""

from __future__ import annotations

import importlib.util

from silkline.core.errors import ConfigError

if importlib.util.find_spec("scrapy") is None:
    raise ConfigError("silkline.scrapy needs Scrapy 2.13 or newer: pip install 'silkline[scrapy]'")

from silkline.scrapy.addon import Addon
from silkline.scrapy.bridge import Bridge
from silkline.scrapy.connection import get_redis, get_redis_from_settings
from silkline.scrapy.dupefilter import RFPDupeFilter
from silkline.scrapy.pipelines import RedisPipeline
from silkline.scrapy.queue import FifoQueue, LifoQueue, PriorityQueue
from silkline.scrapy.scheduler import Scheduler
from silkline.scrapy.spiders import RedisCrawlSpider, RedisMixin, RedisSpider
from silkline.scrapy.stats import RedisStatsCollector

__all__ = [
    "Addon", "Bridge", "FifoQueue", "LifoQueue", "PriorityQueue", "RFPDupeFilter", "RedisCrawlSpider", "RedisMixin",
    "RedisPipeline", "RedisSpider", "RedisStatsCollector", "Scheduler", "get_redis", "get_redis_from_settings",
]  # fmt: skip
