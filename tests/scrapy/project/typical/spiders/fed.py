"""Reads its start URLs from Redis; its contract names the site of the test."""

import os

from silkline.scrapy import RedisSpider


class FedSpider(RedisSpider):
    name = "fed"

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a")

    parse.__doc__ = f"@url {os.environ.get('SITE')}/b\n@returns items 1 1"
