"""Two spiders in one process, with their statistics in Redis."""

SPIDER_MODULES = ["pair.spiders"]
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_PERSIST = True
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
STATS_CLASS = "scrapy_redis.stats.RedisStatsCollector"
ITEM_PIPELINES = {"scrapy_redis.pipelines.RedisPipeline": 300}
CONCURRENT_REQUESTS = 1
REDIS_ITEMS_KEY = "found:%(spider)s"
TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "INFO"
