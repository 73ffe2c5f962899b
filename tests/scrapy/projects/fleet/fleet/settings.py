"""A master finds pages and hands them to slaves through a set in Redis."""

SPIDER_MODULES = ["fleet.spiders"]
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_SERIALIZER = "scrapy_redis.picklecompat"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.SpiderPriorityQueue"
REDIS_PARAMS = {"socket_timeout": 20, "retry_on_timeout": True, "retry_on_error": [TimeoutError]}
REDIS_START_URLS_AS_SET = True
MAX_IDLE_TIME_BEFORE_CLOSE = 1
