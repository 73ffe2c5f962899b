"""A Bloom filter in a string of Redis. Its constructor does not call that of its base class."""

import hashlib

from scrapy_redis.connection import get_redis_from_settings
from scrapy_redis.dupefilter import RFPDupeFilter


class BloomFilter(RFPDupeFilter):
    def __init__(self, server, key, debug, bits):
        self.server = server
        self.key = key
        self.debug = debug
        self.bits = bits
        self.logdupes = True

    @classmethod
    def from_settings(cls, settings):
        return cls(get_redis_from_settings(settings), "dupefilter:bloom", False, settings.getint("BLOOM_BITS"))

    @classmethod
    def from_spider(cls, spider):
        settings = spider.settings
        key = settings.get("SCHEDULER_DUPEFILTER_KEY", "%(spider)s:bloom") % {"spider": spider.name}
        return cls(
            get_redis_from_settings(settings), key, settings.getbool("DUPEFILTER_DEBUG"), settings.getint("BLOOM_BITS")
        )

    def request_seen(self, request):
        digest = hashlib.sha256(self.request_fingerprint(request).encode()).digest()
        places = [int.from_bytes(digest[i : i + 4], "big") % self.bits for i in range(0, 24, 4)]
        known = [self.server.setbit(self.key, place, 1) for place in places]
        return all(known)
