"""Silkline's middlewares: unhandled error responses become dead letters, and the frontier obeys the pace that hosts ask for."""

from __future__ import annotations

import time
from typing import Any, Self
from urllib.parse import urlsplit

from protego import Protego
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.spidermiddlewares.httperror import HttpError

from silkline.core.politeness import MAX_DELAY
from silkline.core.retries import retry_after
from silkline.core.url import parse
from silkline.errors import RequestError
from silkline.frontier.frontier import Frontier
from silkline.scrapy.bridge.bridge import Bridge
from silkline.scrapy.bridge.engine_hooks import current_scheduler, run_by_tool, warn_other_scheduler
from silkline.scrapy.convert.slots import queue_of
from silkline.scrapy.scheduler import Scheduler

RETRY_AFTER_STATUSES = (429, 503)


class SpiderMiddleware:
    """Records responses with an error status that no errback and no other middleware has handled.

    It is placed just before Scrapy's HttpErrorMiddleware, which drops them.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        made = cls(crawler)
        crawler.signals.connect(made.check_scheduler, signals.spider_opened)
        return made

    def check_scheduler(self) -> None:
        """Warn a project that has the add-on, but another scheduler."""
        if find_scheduler(self._crawler) is None and not run_by_tool(self._crawler):
            warn_other_scheduler(self._crawler)

    def process_spider_exception(self, response: Response, exception: Exception, spider: Spider | None = None) -> None:
        """Record an `HttpError`, and leave the exception to the other middlewares."""
        del spider
        scheduler = find_scheduler(self._crawler)
        if isinstance(exception, HttpError) and scheduler is not None:
            scheduler.tracker.note_http_error(response, response.status)


class DownloaderMiddleware:
    """Sends Retry-After headers and the Crawl-delay of robots.txt to the frontier, for all workers of the crawl."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        if not settings.getbool("SILKLINE_POLITENESS_CLUSTER_WIDE", True):  # noqa: FBT003 - Scrapy's signature
            raise NotConfigured
        self._crawler = crawler
        self._obey_robots = settings.getbool("ROBOTSTXT_OBEY")
        self._agent = settings.get("ROBOTSTXT_USER_AGENT")
        self._default_agent = settings.get("USER_AGENT")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_response(self, request: Request, response: Response, spider: Spider | None = None) -> Response:
        """Read Retry-After and robots.txt, and return the response unchanged."""
        del spider
        if response.status in RETRY_AFTER_STATUSES and "cached" not in response.flags:
            self._read_retry_after(request, response)
        elif self._obey_robots and request.callback is NO_CALLBACK and response.status == 200:
            self._read_robots(request, response)
        return response

    def _read_retry_after(self, request: Request, response: Response) -> None:
        header = response.headers.get("Retry-After")
        now = time.time()
        seconds = retry_after(header.decode("latin-1") if header else None, now)
        if seconds is not None:
            self._set_host(request.url, queue_of(request.meta, request.url), block_until=now + seconds)

    def _read_robots(self, request: Request, response: Response) -> None:
        if urlsplit(request.url).path != "/robots.txt":
            return
        agent: Any = self._agent or request.headers.get("User-Agent") or self._default_agent or ""
        agent = agent.decode("latin-1") if isinstance(agent, bytes) else str(agent)
        delay = Protego.parse(response.body.decode("utf-8", "replace")).crawl_delay(agent)
        if delay:
            self._set_host(request.url, None, crawl_delay=min(float(delay), MAX_DELAY))

    def _set_host(self, url: str, slot: str | None, **pace: Any) -> None:
        try:
            host = slot or parse(url).host
        except RequestError:
            return

        async def set_host(frontier: Frontier) -> object:
            return await frontier.admin.set_host(host, **pace)

        if find_scheduler(self._crawler) is not None:
            Bridge.of(self._crawler).outbox.call_frontier(set_host)


def find_scheduler(crawler: Crawler) -> Scheduler | None:
    """Return the crawler's scheduler if it is Silkline's, else None."""
    found: Any = current_scheduler(crawler)
    # isinstance is true for the schedulers of all projects: Scrapy's BaseScheduler compares method names.
    return found if Scheduler in type(found).__mro__ else None
