"""A scheduler that derives from that of scrapy-redis, as packages with a Bloom filter have one. It needs scrapy-redis itself."""

from scrapy_redis.scheduler import Scheduler


class Bloom(Scheduler):
    def enqueue_request(self, request):
        self.stats.inc_value("bloom/asked")
        return super().enqueue_request(request)
