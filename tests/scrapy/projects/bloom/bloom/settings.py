"""A dupefilter and an extension of the project's own."""

SPIDER_MODULES = ["bloom.spiders"]
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.LifoQueue"
SCHEDULER_FLUSH_ON_START = True
DUPEFILTER_CLASS = "bloom.dupefilter.BloomFilter"
BLOOM_BITS = 4096
ITEM_PIPELINES = {"scrapy_redis.pipelines.RedisPipeline": 300}
REDIS_START_URLS_AS_ZSET = True
EXTENSIONS = {"bloom.extensions.CloseWhenIdle": 500}
MYEXT_ENABLED = True
IDLE_NUMBER = 2
