"""The settings of scrapy-redis' own example, as most projects have them."""

SPIDER_MODULES = ["example.spiders"]
USER_AGENT = "example"

DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_PERSIST = True
ITEM_PIPELINES = {
    "example.pipelines.StampPipeline": 300,
    "scrapy_redis.pipelines.RedisPipeline": 400,
}
MAX_IDLE_TIME_BEFORE_CLOSE = 1
