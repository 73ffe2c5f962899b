"""The settings of a typical project of scrapy-redis; one line is new."""

SPIDER_MODULES = ["typical.spiders"]
NEWSPIDER_MODULE = "typical.spiders"
USER_AGENT = "typical"
ROBOTSTXT_OBEY = True

ADDONS = {"silkline.scrapy.Addon": 100}  # this one

DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_PERSIST = True
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.SpiderPriorityQueue"
ITEM_PIPELINES = {
    "typical.pipelines.StorePipeline": 300,
}

TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "INFO"
SILKLINE_LEASE = 2
