"""The Scrapy plugin: a drop-in replacement for scrapy-redis that does not lose requests.

::

    ADDONS = {"silkline.scrapy.Addon": 100}      # settings.py
    from silkline.scrapy import RedisSpider      # instead of scrapy_redis.spiders

The public names of scrapy-redis are available here, and in modules with the same names as there.
"""

from __future__ import annotations

import importlib.util

from silkline.errors import ConfigError

if importlib.util.find_spec("scrapy") is None:
    raise ConfigError("silkline.scrapy needs Scrapy 2.13 or newer: pip install 'silkline[scrapy]'")

from silkline.runtime.presence import installed_version
from silkline.scrapy.addon import Addon
from silkline.scrapy.connection import get_redis, get_redis_from_settings
from silkline.scrapy.dupefilter import RFPDupeFilter
from silkline.scrapy.pipelines import RedisPipeline
from silkline.scrapy.queue import FifoQueue, LifoQueue, PriorityQueue
from silkline.scrapy.scheduler import Scheduler
from silkline.scrapy.spiders import RedisCrawlSpider, RedisMixin, RedisSpider
from silkline.scrapy.stats import RedisStatsCollector

__all__ = [
    "Addon", "FifoQueue", "LifoQueue", "PriorityQueue", "RFPDupeFilter", "RedisCrawlSpider", "RedisMixin",
    "RedisPipeline", "RedisSpider", "RedisStatsCollector", "Scheduler", "get_redis", "get_redis_from_settings",
]  # fmt: skip

__author__ = "Silkline contributors"
__email__ = "contributors@silkline.invalid"
"""There is no address for all of them: SECURITY.md and CONTRIBUTING.md say how to reach the project."""
__version__ = installed_version()
