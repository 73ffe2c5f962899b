"""Files, feeds, dropped items, and an order by depth."""

SPIDER_MODULES = ["downloads.spiders"]
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.FifoQueue"
SCHEDULER_PERSIST = True
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
ITEM_PIPELINES = {
    "downloads.pipelines.Choosy": 100,
    "scrapy.pipelines.files.FilesPipeline": 200,
    "scrapy_redis.pipelines.RedisPipeline": 300,
}
FILES_STORE = "files"
FEEDS = {"items.jsonl": {"format": "jsonlines"}, "items.csv": {"format": "csv", "fields": ["title", "path"]}}
DEPTH_PRIORITY = 1
DEPTH_LIMIT = 4
MAX_IDLE_TIME_BEFORE_CLOSE = 1
