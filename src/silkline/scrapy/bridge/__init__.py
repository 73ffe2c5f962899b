"""Two threads, one crawl: the reactor of Scrapy and the event loop that talks to Redis."""
