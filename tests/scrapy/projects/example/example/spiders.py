"""The three kinds of spiders: one with rules, one that is fed, and one that is fed and has rules."""

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from scrapy_redis.spiders import RedisCrawlSpider, RedisSpider

PRODUCTS = Rule(LinkExtractor(restrict_css=".product"), callback="parse_product")
LISTINGS = Rule(LinkExtractor(restrict_css=".next"), follow=True)


def path_of(response):
    return "/" + response.url.split("/", 3)[3]


class Catalog(CrawlSpider):
    name = "catalog"
    rules = [PRODUCTS, LISTINGS]

    def __init__(self, site, **options):
        super().__init__(**options)
        self.start_urls = [site]

    def parse_product(self, response):
        yield {"title": response.css("title::text").get(), "path": path_of(response), "depth": response.meta["depth"]}


class Fed(RedisSpider):
    name = "fed"
    redis_key = "fed:todo"

    def parse(self, response):
        yield {"echo": response.json(), "job": response.meta.get("job")}


class FedRules(RedisCrawlSpider):
    name = "fed_rules"
    rules = (Rule(LinkExtractor(restrict_css=".product, .next"), callback="parse_page", follow=True),)

    def __init__(self, *args, **options):
        domain = options.pop("domain", "")
        self.allowed_domains = [name for name in domain.split(",") if name]
        super().__init__(*args, **options)

    def parse_page(self, response):
        return {"title": response.css("title::text").get(), "path": path_of(response)}
