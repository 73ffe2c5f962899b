"""Migration from scrapy-redis: reads its queues and pickled requests."""
