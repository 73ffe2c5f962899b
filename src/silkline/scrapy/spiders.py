"""Spiders that are fed from Redis: `RedisSpider`, `RedisCrawlSpider`, and what makes them so."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

import scrapy
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.settings import BaseSettings
from scrapy.spiders import CrawlSpider, Spider

from silkline.core.errors import ConfigError
from silkline.frontier.inbox import Kind
from silkline.scrapy import connection
from silkline.scrapy.bridge import Bridge
from silkline.scrapy.feed import Feed
from silkline.scrapy.messages import as_requests, read_message, reason_of
from silkline.scrapy.middlewares import find_scheduler
from silkline.scrapy.polling import Polling

START_URLS_KEY = "%(name)s:start_urls"

_OWN_READING = ("next_requests", "schedule_next_requests", "pop_list_queue", "pop_priority_queue")
"""A spider that overrides one of these reads its messages itself."""


class RedisMixin:
    """What a spider needs to be fed from Redis while it works.

    Whatever is pushed into `redis_key` is made a request by `make_request_from_data`, as soon as there is room for it,
    and is not lost if the process dies. A spider may override that, or `next_requests`, which then reads for itself.
    """

    redis_key: str | list[str] | None = None
    redis_batch_size: int | None = None
    redis_encoding: str | None = None
    redis_key_check_interval: int | None = None
    server: Any = None
    spider_idle_start_time = int(time.time())
    max_idle_time: int | None = None
    _redis_keys: list[str] | None = None
    _last_priority_scan: float = 0
    _feed: Feed | None = None
    _polling: Polling | None = None
    fetch_data: Callable[[str, int], list[Any]]
    count_size: Callable[[str], int]

    if TYPE_CHECKING:
        name: str
        crawler: Crawler
        logger: Any
        start_urls: list[str]

    # ── setting up ──

    def setup_redis(self, crawler: Crawler | None = None) -> None:
        """Read the settings and get ready to be fed. Called again, it does nothing."""
        if self.server is not None:
            return
        crawler = crawler or getattr(self, "crawler", None)
        if crawler is None:
            raise ValueError("crawler is required")
        settings = crawler.settings
        if self.redis_key is None:
            self.redis_key = settings.get("REDIS_START_URLS_KEY") or START_URLS_KEY
        self.redis_key, self._redis_keys = self._normalize_redis_key(self.redis_key)
        self._read_numbers(settings)
        self.redis_encoding = self.redis_encoding or settings.get("REDIS_ENCODING") or "utf-8"
        self.server = connection.from_settings(settings)
        kind = kind_of(settings)
        pops = {"list": self.pop_list_queue, "set": self.server.spop, "zset": self.pop_priority_queue}
        counts = {"list": self.server.llen, "set": self.server.scard, "zset": self.server.zcard}
        self.fetch_data, self.count_size = pops[kind], counts[kind]
        self.spider_idle_start_time = int(time.time())
        self.logger.info(
            "Reading start URLs from redis key %s (a %s; batch size %d, encoding %s)",
            ", ".join(self._keys), kind, self.redis_batch_size, self.redis_encoding,
        )  # fmt: skip
        crawler.signals.connect(self._start_feed, signal=signals.spider_opened)
        crawler.signals.connect(self._note_work, signal=signals.response_received)
        crawler.signals.connect(self.spider_idle, signal=signals.spider_idle)

    def _read_numbers(self, settings: BaseSettings) -> None:
        if self.redis_batch_size is None:
            self.redis_batch_size = settings.getint("CONCURRENT_REQUESTS", 16)
        self.redis_batch_size = _whole(self.redis_batch_size, "redis_batch_size must be an integer")
        if self.redis_key_check_interval is None:
            self.redis_key_check_interval = settings.get("REDIS_KEY_CHECK_INTERVAL")
        interval = self.redis_key_check_interval or 0
        self.redis_key_check_interval = _whole(interval, "redis_key_check_interval must be an integer or None")
        if self.max_idle_time is None:
            self.max_idle_time = settings.get("MAX_IDLE_TIME_BEFORE_CLOSE") or 0
        self.max_idle_time = _whole(self.max_idle_time, "max_idle_time must be an integer")

    def _normalize_redis_key(self, redis_key: Any) -> tuple[Any, list[str] | None]:
        """The key with the spider's name in it; of a list the first, and all of them, each once."""
        if isinstance(redis_key, str):
            key = redis_key % {"name": self.name}
            if not key.strip():
                raise ValueError("redis_key must not be empty")
            return key, None
        if isinstance(redis_key, list | tuple):
            keys = [(key % {"name": self.name}).strip() for key in redis_key]
            if not all(keys):
                raise ValueError("redis_key must not be empty")
            if not keys:
                raise ValueError("redis_key list is empty after normalization")
            return keys[0], list(dict.fromkeys(keys))
        return redis_key, None

    @property
    def _keys(self) -> list[str]:
        return self._redis_keys or [str(self.redis_key)]

    def _start_feed(self) -> None:
        """Begin to read, in the background. Without our scheduler, messages are read when the spider is idle."""
        try:
            bridge = Bridge.of(self.crawler)
        except ConfigError:
            return
        if any(getattr(type(self), name) is not getattr(RedisMixin, name) for name in _OWN_READING):
            self._polling = Polling(self, bridge)
            bridge.add_task(self._polling.run)
        else:
            scheduler: Any = find_scheduler(self.crawler)
            self._feed = Feed(self, bridge, scheduler.prepare, self._keys, kind_of(self.crawler.settings))
            bridge.add_task(self._feed.run)

    # ── what is called by Scrapy ──

    async def start(self) -> AsyncIterator[Any]:
        """The spider's own start URLs, if it has any; all others come from Redis."""
        if type(self).start_requests is not RedisMixin.start_requests:
            for request in self.start_requests():
                yield request
        else:
            for url in self.start_urls:
                yield scrapy.Request(url, dont_filter=True)

    def _note_work(self) -> None:
        self.spider_idle_start_time = int(time.time())

    def spider_idle(self) -> None:
        """Keep the spider open, unless nobody has had anything to do for `max_idle_time` seconds."""
        idle = self.max_idle_time
        if self._feed is not None:
            if idle and self._feed.may_close(idle):
                return
            raise DontCloseSpider
        self._maybe_check_priority_scan()
        if self.server is not None and self._any_key_has_items():
            self.spider_idle_start_time = int(time.time())
        self.schedule_next_requests()
        elsewhere = self._polling.idle_for if self._polling else float("inf")
        if idle and min(int(time.time()) - self.spider_idle_start_time, elsewhere) >= idle:
            return
        raise DontCloseSpider

    # ── what spiders override ──

    def make_request_from_data(self, data: bytes) -> Any:
        """The request, or requests, that a message asks for: a URL, or JSON with a ``url`` and more.

        An error raised here makes the message a dead letter with the error as its reason.
        """
        return read_message(self, data, self.redis_encoding or "utf-8")  # type: ignore[arg-type]

    def start_requests(self) -> Iterable[Any]:
        """A batch of requests, as scrapy-redis had it; Scrapy no longer asks for it."""
        return self.next_requests()

    def next_requests(self) -> Iterator[scrapy.Request]:
        """Take a batch of messages from Redis at once. They are gone from there, whatever happens to them."""
        self._maybe_check_priority_scan()
        found = 0
        for data in self.fetch_data(str(self.redis_key), int(self.redis_batch_size or 1)) or ():
            try:
                requests = as_requests(self.make_request_from_data(data))
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one message, the others are good
                reason = reason_of(error)
                self.logger.error("A message in %s is no request: %s: %r", self.redis_key, reason, data)  # noqa: TRY400
                continue
            yield from requests
            found += len(requests)
        if found:
            self.logger.debug("Read %d requests from %r", found, self.redis_key)

    def schedule_next_requests(self) -> None:
        """Take a batch of messages and crawl them."""
        for request in self.next_requests():
            assert self.crawler.engine is not None
            self.crawler.engine.crawl(request)

    def pop_list_queue(self, redis_key: str, batch_size: int) -> list[Any]:
        """Take messages from the left of a list."""
        with self.server.pipeline() as pipe:
            pipe.lrange(redis_key, 0, batch_size - 1)
            pipe.ltrim(redis_key, batch_size, -1)
            taken: list[Any] = pipe.execute()[0]
        return taken

    def pop_priority_queue(self, redis_key: str, batch_size: int) -> list[Any]:
        """Take messages with the highest scores."""
        with self.server.pipeline() as pipe:
            pipe.zrevrange(redis_key, 0, batch_size - 1)
            pipe.zremrangebyrank(redis_key, -batch_size, -1)
            taken: list[Any] = pipe.execute()[0]
        return taken

    def decoded(self, data: bytes) -> Any:
        """A message as redis-py would have given it to a project that has REDIS_DECODE_RESPONSES."""
        if self.crawler.settings.getbool("REDIS_DECODE_RESPONSES"):
            return data.decode(self.redis_encoding or "utf-8")
        return data

    # ── several keys, for spiders that read for themselves ──

    def _is_multi_key_mode(self) -> bool:
        return bool(self._redis_keys)

    def _any_key_has_items(self) -> bool:
        return any(self.count_size(key) > 0 for key in self._keys)

    def _select_priority_key(self) -> str | None:
        """The first key that has something."""
        if not self._redis_keys:
            return str(self.redis_key)
        return next((key for key in self._redis_keys if self.count_size(key) > 0), None)

    def _maybe_switch_to_higher_priority_key(self) -> None:
        if not self._redis_keys:
            return
        found = self._select_priority_key()
        known = self._redis_keys.index(self.redis_key) if self.redis_key in self._redis_keys else len(self._redis_keys)
        if found is not None and self._redis_keys.index(found) < known:
            self.redis_key = found

    def _maybe_check_priority_scan(self) -> None:
        """Go on to a key that has something when this one is empty, and from time to time to a more urgent one."""
        if not self._redis_keys:
            return
        if self.count_size(str(self.redis_key)) == 0:
            self.redis_key = self._select_priority_key() or self.redis_key
        if self.redis_key_check_interval and time.time() - self._last_priority_scan >= self.redis_key_check_interval:
            self._maybe_switch_to_higher_priority_key()
            self._last_priority_scan = time.time()


class RedisSpider(RedisMixin, Spider):
    """A spider that is fed from Redis."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.setup_redis(crawler)
        return spider


class RedisCrawlSpider(RedisMixin, CrawlSpider):
    """A spider with rules that is fed from Redis."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.setup_redis(crawler)
        return spider


def kind_of(settings: BaseSettings) -> Kind:
    if settings.getbool("REDIS_START_URLS_AS_SET"):
        return "set"
    return "zset" if settings.getbool("REDIS_START_URLS_AS_ZSET") else "list"


def _whole(value: Any, complaint: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(complaint) from None
