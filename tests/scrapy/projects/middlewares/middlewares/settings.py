"""Middlewares that answer, repeat and replace requests."""

SPIDER_MODULES = ["middlewares.spiders"]
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
ITEM_PIPELINES = {"scrapy_redis.pipelines.RedisPipeline": 300}
DOWNLOADER_MIDDLEWARES = {
    "middlewares.components.LocalPages": 100,
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    "middlewares.components.OwnRetry": 550,
    "middlewares.components.Fallback": 560,
}
SPIDER_MIDDLEWARES = {"middlewares.components.Rescue": 200}
