"""A spider with rules that becomes a fed one with the mixin."""

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from scrapy_redis.spiders import RedisMixin


class Downloads(RedisMixin, CrawlSpider):
    name = "downloads"
    redis_key = "downloads:start_urls"
    rules = (
        Rule(LinkExtractor(restrict_css=".next, .back"), follow=True),
        Rule(LinkExtractor(restrict_css=".product"), callback="parse_product"),
    )

    @classmethod
    def from_crawler(cls, crawler, *args, **options):
        spider = super().from_crawler(crawler, *args, **options)
        spider.setup_redis(crawler)
        return spider

    def parse_product(self, response):
        yield {
            "title": response.css("title::text").get(),
            "path": response.url.split("/", 3)[3],
            "depth": response.meta["depth"],
            "file_urls": [response.urljoin(response.css(".file::attr(href)").get())],
        }
