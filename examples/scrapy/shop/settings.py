"""A Scrapy project on Silkline: one line, and no Redis to install.

Without REDIS_URL, a server of our own runs, with its data in .silkline/.
"""

ADDONS = {"silkline.scrapy.Addon": 100}
SCHEDULER_PERSIST = True  # Ctrl-C, and the next run goes on where this one stopped

SPIDER_MODULES = ["shop.spiders"]
USER_AGENT = "shop (+https://you.example/crawler)"
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0.01  # per host, for all workers together
CONCURRENT_REQUESTS_PER_DOMAIN = 4
TELNETCONSOLE_ENABLED = False
