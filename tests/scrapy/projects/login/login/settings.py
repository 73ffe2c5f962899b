"""Requests of all kinds."""

SPIDER_MODULES = ["login.spiders"]
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
ITEM_PIPELINES = {"scrapy_redis.pipelines.RedisPipeline": 300}
RETRY_TIMES = 1
