"""Spiders that read their start URLs from Redis: `RedisSpider`, `RedisCrawlSpider` and their mixin `RedisMixin`."""

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

from silkline.errors import ConfigError
from silkline.scrapy import connection, defaults
from silkline.scrapy.bridge.engine_hooks import has_middlewares, run_by_tool, warn_other_scheduler
from silkline.scrapy.bridge.feed import Feed, SpiderPoller
from silkline.scrapy.bridge.start_errors import reported_start_errors
from silkline.scrapy.convert.messages import as_requests, read_message, reason_of
from silkline.scrapy.convert.settings import start_kind, use_local_server
from silkline.scrapy.middlewares import find_scheduler

_OWN_READING = ("next_requests", "schedule_next_requests", "pop_list_queue", "pop_priority_queue")
"""A spider that overrides one of these methods reads its messages itself."""


class InvalidArgument(ConfigError, ValueError):
    """An argument or setting of a spider cannot be used. scrapy-redis raises a ValueError with the same text."""


class RedisMixin:
    """Makes a spider read start messages from Redis while it runs.

    `make_request_from_data` turns each message that is pushed to `redis_key` into requests, as soon as the spider has
    room for them. A message is not lost if the process dies. A spider may override that method, or `next_requests` to
    read messages itself.
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
    _poller: SpiderPoller | None = None
    _by_tool = False
    """Whether one of Scrapy's command-line tools runs the spider, which then reads no messages."""
    fetch_data: Callable[[str, int], list[Any]]
    count_size: Callable[[str], int]

    if TYPE_CHECKING:
        name: str
        crawler: Crawler
        logger: Any
        start_urls: list[str]

    # ── setting up ──

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Use localhost:6379 if the project names no server: other programs push the messages, so it cannot be an embedded one."""
        super().update_settings(settings)  # type: ignore[misc]
        use_local_server(settings)

    def setup_redis(self, crawler: Crawler | None = None) -> None:
        """Read the settings and connect the signals. A second call does nothing."""
        if self.server is not None:
            return
        crawler = crawler or getattr(self, "crawler", None)
        if crawler is None:
            raise ValueError("crawler is required")
        with reported_start_errors(crawler):
            self._set_up(crawler)

    def _set_up(self, crawler: Crawler) -> None:
        settings = crawler.settings
        if self.redis_key is None:
            self.redis_key = settings.get("REDIS_START_URLS_KEY") or defaults.START_URLS_KEY
        self.redis_key, self._redis_keys = self._normalize_redis_key(self.redis_key)
        self._read_numbers(settings)
        self.redis_encoding = self.redis_encoding or settings.get("REDIS_ENCODING") or defaults.REDIS_ENCODING
        self.server = connection.from_settings(settings)
        kind = start_kind(settings)
        pops = {"list": self.pop_list_queue, "set": self.server.spop, "zset": self.pop_priority_queue}
        counts = {"list": self.server.llen, "set": self.server.scard, "zset": self.server.zcard}
        self.fetch_data, self.count_size = pops[kind], counts[kind]
        self.spider_idle_start_time = int(time.time())
        self._by_tool = run_by_tool(crawler)
        if not self._by_tool:
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
        """Return the key with the spider's name filled in; of a list its first key, and all its keys, each once."""
        if isinstance(redis_key, str):
            key = _key(redis_key, self.name)
            if not key.strip():
                raise InvalidArgument("redis_key must not be empty")
            return key, None
        if isinstance(redis_key, list | tuple):
            keys = [_key(key, self.name).strip() for key in redis_key]
            if not all(keys):
                raise InvalidArgument("redis_key must not be empty")
            if not keys:
                raise InvalidArgument("redis_key list is empty after normalization")
            return keys[0], list(dict.fromkeys(keys))
        return redis_key, None

    @property
    def _keys(self) -> list[str]:
        return self._redis_keys or [str(self.redis_key)]

    def _start_feed(self) -> None:
        """Start to read in the background. Without Silkline's scheduler, messages are read when the spider is idle."""
        if self._by_tool:
            return
        scheduler: Any = find_scheduler(self.crawler)
        if scheduler is None:
            if not has_middlewares(self.crawler):  # which warn otherwise
                warn_other_scheduler(self.crawler)
            return
        bridge = scheduler.bridge
        if any(getattr(type(self), name) is not getattr(RedisMixin, name) for name in _OWN_READING):
            self._poller = SpiderPoller(self, bridge)
            bridge.add_task(self._poller.run)
        else:
            self._feed = Feed(self, bridge, scheduler, self._keys, start_kind(self.crawler.settings))
            bridge.add_task(self._feed.run)

    # ── called by Scrapy ──

    async def start(self) -> AsyncIterator[Any]:
        """Yield the spider's own start URLs, if it has any. All others come from Redis."""
        if self._by_tool:
            return
        if type(self).start_requests is not RedisMixin.start_requests:
            for request in self.start_requests():
                yield request
        else:
            for url in self.start_urls:
                yield scrapy.Request(url, dont_filter=True)

    def _note_work(self) -> None:
        self.spider_idle_start_time = int(time.time())

    def spider_idle(self) -> None:
        """Keep the spider open, unless no worker has had work for `max_idle_time` seconds, or a Scrapy tool runs the spider."""
        if self._by_tool:
            return
        idle = self.max_idle_time
        if self._feed is not None:
            if idle and self._feed.may_close(idle):
                return
            raise DontCloseSpider
        self._maybe_check_priority_scan()
        if self.server is not None and self._any_key_has_items():
            self.spider_idle_start_time = int(time.time())
        self.schedule_next_requests()
        elsewhere = self._poller.idle_for if self._poller else float("inf")
        if idle and min(int(time.time()) - self.spider_idle_start_time, elsewhere) >= idle:
            return
        raise DontCloseSpider

    # ── may be overridden ──

    def make_request_from_data(self, data: bytes) -> Any:
        """Return the request or requests of a message: a URL, or a JSON object with a ``url`` and other fields.

        If it raises, the message becomes a dead letter with the error as its reason.
        """
        return read_message(self, data, self.redis_encoding or "utf-8")  # type: ignore[arg-type]

    def start_requests(self) -> Iterable[Any]:
        """Return a batch of requests, as in scrapy-redis. Scrapy no longer calls this method."""
        return self.next_requests()

    def next_requests(self) -> Iterator[scrapy.Request]:
        """Remove a batch of messages from Redis and yield their requests. If the process dies, they are lost."""
        self._maybe_check_priority_scan()
        found = 0
        for data in self.fetch_data(str(self.redis_key), int(self.redis_batch_size or 1)) or ():
            try:
                requests = as_requests(self.make_request_from_data(data))
            except Exception as error:  # noqa: BLE001 - one bad message must not block the others
                reason = reason_of(error)
                self.logger.error("A message in %s is not a request: %s: %r", self.redis_key, reason, data)  # noqa: TRY400
                continue
            yield from requests
            found += len(requests)
        if found:
            self.logger.debug("Read %d requests from %r", found, self.redis_key)

    def schedule_next_requests(self) -> None:
        """Take a batch of messages and crawl their requests."""
        for request in self.next_requests():
            assert self.crawler.engine is not None
            self.crawler.engine.crawl(request)

    def pop_list_queue(self, redis_key: str, batch_size: int) -> list[Any]:
        """Remove messages from the left of a list and return them."""
        with self.server.pipeline() as pipe:
            pipe.lrange(redis_key, 0, batch_size - 1)
            pipe.ltrim(redis_key, batch_size, -1)
            taken: list[Any] = pipe.execute()[0]
        return taken

    def pop_priority_queue(self, redis_key: str, batch_size: int) -> list[Any]:
        """Remove the messages with the highest scores and return them."""
        with self.server.pipeline() as pipe:
            pipe.zrevrange(redis_key, 0, batch_size - 1)
            pipe.zremrangebyrank(redis_key, -batch_size, -1)
            taken: list[Any] = pipe.execute()[0]
        return taken

    def decoded(self, data: bytes) -> Any:
        """Return a message as redis-py would: as a string if REDIS_DECODE_RESPONSES is set."""
        if self.crawler.settings.getbool("REDIS_DECODE_RESPONSES"):
            return data.decode(self.redis_encoding or "utf-8")
        return data

    # ── several keys, for spiders that read their messages themselves ──

    def _is_multi_key_mode(self) -> bool:
        return bool(self._redis_keys)

    def _any_key_has_items(self) -> bool:
        return any(self.count_size(key) > 0 for key in self._keys)

    def _select_priority_key(self) -> str | None:
        """Return the first key that has messages."""
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
        """Switch to a key that has messages if this one is empty, and regularly to a key of higher priority."""
        if not self._redis_keys:
            return
        if self.count_size(str(self.redis_key)) == 0:
            self.redis_key = self._select_priority_key() or self.redis_key
        if self.redis_key_check_interval and time.time() - self._last_priority_scan >= self.redis_key_check_interval:
            self._maybe_switch_to_higher_priority_key()
            self._last_priority_scan = time.time()


class RedisSpider(RedisMixin, Spider):
    """A spider that reads its start URLs from Redis."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Create it for a crawler, as Scrapy does."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.setup_redis(crawler)
        return spider


class RedisCrawlSpider(RedisMixin, CrawlSpider):
    """A `CrawlSpider` that reads its start URLs from Redis."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Create it for a crawler, as Scrapy does."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.setup_redis(crawler)
        return spider


def _whole(value: Any, complaint: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InvalidArgument(complaint) from None


def _key(pattern: str, spider: str) -> str:
    try:
        return pattern % {"name": spider}
    except (KeyError, ValueError, TypeError):
        raise InvalidArgument(f"redis_key={pattern!r} is not a valid pattern; it may contain %(name)s") from None
