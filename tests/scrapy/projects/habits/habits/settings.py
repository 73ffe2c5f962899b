"""What Scrapy offers beside the scheduler: throttling, a cache, a directory for the state of a job."""

SPIDER_MODULES = ["habits.spiders"]
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_FLUSH_ON_START = True
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
ITEM_PIPELINES = {
    "habits.pipelines.Later": 100,
    "habits.pipelines.ByKind": 300,
}
REDIS_START_URLS_KEY = "%(name)s:todo"
MAX_IDLE_TIME_BEFORE_CLOSE = 1
AUTOTHROTTLE_ENABLED = True
AUTOTHROTTLE_START_DELAY = 0.02
AUTOTHROTTLE_TARGET_CONCURRENCY = 8.0
HTTPCACHE_ENABLED = True
HTTPCACHE_DIR = "cache"
JOBDIR = "job"
