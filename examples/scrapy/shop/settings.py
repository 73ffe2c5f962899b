"""A Scrapy project on Silkline: one line, and no Redis to install.

Without REDIS_URL, an embedded server runs, with its data in .silkline/. For a project that comes from scrapy-redis, before and after the two
changed lines, see ../../scrapy-redis.
"""

ADDONS = {"silkline.scrapy.Addon": 100}
SCHEDULER_PERSIST = True  # after Ctrl-C, the next run continues where this one stopped

SPIDER_MODULES = ["shop.spiders"]
USER_AGENT = "shop (+https://you.example/crawler)"
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0.01  # per host, for all workers together
CONCURRENT_REQUESTS_PER_DOMAIN = 4
TELNETCONSOLE_ENABLED = False
SILKLINE_ALLOW_PRIVATE = ["127.0.0.1"]  # the shop of this example runs on your machine; remove this line for real sites
