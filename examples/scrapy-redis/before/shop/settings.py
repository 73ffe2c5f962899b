"""A project of scrapy-redis: the queue, the dupefilter, the start URLs and the items are in Redis."""

SPIDER_MODULES = ["shop.spiders"]
USER_AGENT = "shop (+https://you.example/crawler)"
ROBOTSTXT_OBEY = True
TELNETCONSOLE_ENABLED = False

REDIS_URL = "redis://localhost:6379/0"
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_PERSIST = True
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.PriorityQueue"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
ITEM_PIPELINES = {"scrapy_redis.pipelines.RedisPipeline": 300}
MAX_IDLE_TIME_BEFORE_CLOSE = 10  # seconds without start URLs
