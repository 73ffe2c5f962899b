"""A spider that looks at pages with a browser, through scrapy-playwright. The links are written by scripts."""

import json
import os
import shutil

import scrapy
from scrapy_playwright.page import PageMethod

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HANDLER = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"


def shout(page):
    return page.evaluate("document.title = document.title.toUpperCase()")


class BrowsingSpider(scrapy.Spider):
    name = "browsing"
    custom_settings = {
        "ADDONS": {"silkline.scrapy.Addon": 100},
        "DOWNLOAD_HANDLERS": {"http": HANDLER, "https": HANDLER},
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "PLAYWRIGHT_LAUNCH_OPTIONS": {
            "executable_path": CHROMIUM,
            "args": ["--no-sandbox"] if os.geteuid() == 0 else [],  # as root it has no sandbox to run in
        },
        "PLAYWRIGHT_MAX_PAGES_PER_CONTEXT": 2,  # a page that is left open is missed at once
        "RETRY_TIMES": 1,
        "SCHEDULER_PERSIST": True,
        "SILKLINE_LEASE": 2,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "INFO",
    }

    def __init__(self, *args, site="", **kwargs):
        super().__init__(*args, **kwargs)
        self.site = site

    async def start(self):
        if self.site:
            yield self.look(self.site)

    def look(self, url):
        methods = [PageMethod("wait_for_selector", "a, h1", timeout=20_000)]
        callback = self.parse
        if "held" in url:
            callback = self.parse_held
        if "told" in url:
            methods.append(PageMethod("evaluate", "([text]) => { document.title = text }", ["told"]))
        if "shout" in url:
            methods.append(PageMethod(shout))
        meta = {"playwright": True, "playwright_page_methods": methods, "playwright_include_page": "held" in url}
        return scrapy.Request(url, callback=callback, meta=meta)

    def parse(self, response):
        self.write(response.url, response.css("title::text").get())
        for link in response.css("a::attr(href)").getall():
            yield self.look(response.urljoin(link))

    async def parse_held(self, response):
        page = response.meta["playwright_page"]
        title = await page.title()
        await page.close()
        self.write(response.url, title)

    def write(self, url, title):
        with open(os.environ["OUT"], "a") as file:  # noqa: PTH123
            file.write(json.dumps({"url": url, "title": title}) + "\n")
