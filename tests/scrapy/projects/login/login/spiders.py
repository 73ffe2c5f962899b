"""Logs two users in, and sends what else a request can carry."""

import scrapy
from scrapy.http import FormRequest, JsonRequest


class Login(scrapy.Spider):
    name = "login"

    def __init__(self, site, **options):
        super().__init__(**options)
        self.site = site.rstrip("/")

    async def start(self):
        for user in ("ann", "bob"):
            yield scrapy.Request(
                f"{self.site}/login?{user}", self.fill_in, cb_kwargs={"user": user}, meta={"cookiejar": user}
            )
        yield scrapy.Request(f"{self.site}/", self.send, dont_filter=True)

    def fill_in(self, response, user):
        jar = {"cookiejar": response.meta["cookiejar"]}
        yield FormRequest.from_response(response, formdata={"user": user}, callback=self.logged_in, meta=jar)

    def logged_in(self, response):
        yield {"user": response.meta["cookiejar"], "title": response.css("title::text").get()}
        again = {"cookiejar": response.meta["cookiejar"]}
        yield response.follow(f"/account/orders?{again['cookiejar']}", self.parse_title, meta=again)

    def parse_title(self, response):
        yield {"title": response.css("title::text").get(), "path": response.url.removeprefix(self.site)}

    def send(self, response):
        at = self.site + "/echo"
        own_jar = {"cookiejar": "sent"}
        yield FormRequest(f"{at}?1", formdata={"a": "1", "b": "ü"}, callback=self.parse_echo, meta=own_jar)
        yield JsonRequest(f"{at}?2", data={"list": [1, None]}, callback=self.parse_echo, meta=own_jar)
        yield scrapy.Request(
            f"{at}?3", self.parse_echo, cookies={"c": "1"}, headers={"X-Token": "t"}, meta={"cookiejar": 3}
        )
        cookies = [{"name": "d", "value": "2", "path": "/"}]
        yield scrapy.Request(f"{at}?4", self.parse_echo, cookies=cookies, meta={"cookiejar": 4, "pair": (1, 2)})
        yield scrapy.Request(
            f"{at}?5", self.parse_echo, method="PUT", body=b"\x00\xff", cb_kwargs={"tag": "put"}, meta=own_jar
        )
        for number in range(3):
            yield scrapy.Request(f"{self.site}/counted", self.parse_title, dont_filter=True, meta={"number": number})
        yield scrapy.Request(f"{self.site}/echo?6", self.parse_echo, meta={"cookiejar": 6})
        yield scrapy.Request(f"{self.site}/echo?6", self.parse_echo, meta={"cookiejar": 6})
        yield scrapy.Request(f"{self.site}/moved", self.parse_echo, meta={"cookiejar": 7})
        yield scrapy.Request(f"{self.site}/missing?1", self.parse_echo, errback=self.failed)
        yield scrapy.Request(f"{self.site}/missing?2", self.parse_status, meta={"handle_httpstatus_list": [404]})
        yield scrapy.Request(f"{self.site}/broken", self.parse_echo, errback=self.failed)
        yield scrapy.Request(
            "http://127.0.0.1:1/refused", self.parse_echo, errback=self.failed, meta={"dont_retry": True}
        )

    def parse_echo(self, response, tag=""):
        meta = {name: response.meta[name] for name in ("pair",) if name in response.meta}
        yield {"echo": response.json(), "tag": tag, "meta": str(meta)}

    def parse_status(self, response):
        yield {"status": response.status}

    def failed(self, failure):
        why = failure.type.__name__.removeprefix("Download")  # new in Scrapy 2.14
        yield {"failed": failure.request.url.replace(self.site, ""), "why": why}
