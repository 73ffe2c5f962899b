"""A spider that feeds itself when it starts, and has a name that no file could have."""

from scrapy_redis.spiders import RedisSpider


class Habits(RedisSpider):
    name = "Müllers Shop: neu"

    def __init__(self, site, **options):
        super().__init__(**options)
        self.site = site

    def start_requests(self):
        self.server.lpush(self.redis_key, self.site)
        return self.next_requests()

    def parse(self, response):
        yield from response.follow_all(css="a.next")
        yield from response.follow_all(css="a.product", callback=self.parse_product)

    def parse_product(self, response):
        self.state["products"] = self.state.get("products", 0) + 1
        title = response.css("title::text").get()
        yield {"title": title, "number": int(title.split()[1]), "cached": "cached" in response.flags}
