"""Options: all settings of a project that concern the plugin, read and checked once, when the spider opens."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from scrapy import Spider
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from silkline.core.errors import ConfigError
from silkline.core.politeness import MAX_CONCURRENCY, Politeness
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.settings import Order
from silkline.frontier.wishes import Wishes, embedded_in
from silkline.scrapy.address import read_address
from silkline.scrapy.queue import Queue

log = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_LEASE = 30.0
UNHURRIED = Politeness(delay=0.0, concurrency=MAX_CONCURRENCY)
"""The frontier's pace when every process keeps to its own."""

OWN = (
    "SILKLINE_CRAWL", "SILKLINE_LEASE", "SILKLINE_POLITENESS_CLUSTER_WIDE", "SILKLINE_SEEN", "SILKLINE_CAPACITY",
    "SILKLINE_SHARDS", "SILKLINE_OVERFLOW",
)  # fmt: skip
"""The settings that scrapy-redis does not have."""

QUEUE_METHODS = ("__len__", "push", "pop", "clear", "_encode_request", "_decode_request")
"""What queues of scrapy-redis are overridden in."""

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the settings say. `read` makes it, and refuses nonsense in a sentence."""

    url: str | None
    """The server's address; None for the embedded one."""
    crawl: str
    persist: bool = False
    flush_on_start: bool = False
    idle_before_close: float = 0.0
    max_idle_time: float = 0.0
    """MAX_IDLE_TIME_BEFORE_CLOSE; 0 for never."""
    order: Order = "fifo"
    by_priority: bool = True
    """False for a queue that is first in, first out (or last in) whatever the priorities are."""
    cluster_wide: bool = True
    politeness: Politeness = UNHURRIED
    concurrency: int = 16
    """CONCURRENT_REQUESTS."""
    obey_robots: bool = False
    lease: float = DEFAULT_LEASE
    seen: str | None = None
    capacity: int | None = None
    shards: int | None = None
    overflow: str | None = None
    start_key: str = ""
    """REDIS_START_URLS_KEY with the spider's name in it."""
    start_kind: Literal["list", "set", "zset"] = "list"
    key_check_interval: float | None = None
    items_key: str = ""
    """REDIS_ITEMS_KEY as it is written, with ``%(spider)s`` in it."""
    items_serializer: str | None = None
    stats_key: str = ""

    @classmethod
    def read(cls, settings: BaseSettings, spider: Spider) -> Options:
        """Read the settings of a crawl of *spider*."""
        unknown = sorted(name for name in settings if str(name).startswith("SILKLINE_") and name not in OWN)
        if unknown:
            raise ConfigError(f"there is no setting {', '.join(unknown)}; Silkline's own are {', '.join(OWN)}")
        if settings.get("SCHEDULER_SERIALIZER"):
            log.warning("SCHEDULER_SERIALIZER is not used: requests are stored as msgpack, never pickled")
        queue, url = _queue(settings), read_address(settings)
        cluster_wide = _yes(settings, "SILKLINE_POLITENESS_CLUSTER_WIDE", default=True)
        return cls(
            url=url,
            crawl=crawl_name(settings, spider.name),
            persist=_yes(settings, "SCHEDULER_PERSIST"),
            flush_on_start=_yes(settings, "SCHEDULER_FLUSH_ON_START"),
            idle_before_close=_number(settings, "SCHEDULER_IDLE_BEFORE_CLOSE", 0.0),
            max_idle_time=_number(settings, "MAX_IDLE_TIME_BEFORE_CLOSE", 0.0),
            order=queue.order,
            by_priority=queue.by_priority,
            cluster_wide=cluster_wide,
            politeness=_politeness(settings, spider) if cluster_wide else UNHURRIED,
            concurrency=_whole(settings, "CONCURRENT_REQUESTS", 16) or 1000,  # none means no limit
            obey_robots=_yes(settings, "ROBOTSTXT_OBEY"),
            lease=_number(settings, "SILKLINE_LEASE", DEFAULT_LEASE, least=1.0),
            seen=settings.get("SILKLINE_SEEN"),
            capacity=_maybe(settings, "SILKLINE_CAPACITY", _whole),
            shards=_maybe(settings, "SILKLINE_SHARDS", _whole),
            overflow=settings.get("SILKLINE_OVERFLOW") or _overflow_of(url),
            start_key=_text(settings, "REDIS_START_URLS_KEY", "%(name)s:start_urls", name=spider.name),
            start_kind=_kind(settings),
            key_check_interval=_maybe(settings, "REDIS_KEY_CHECK_INTERVAL", _number),
            items_key=settings.get("REDIS_ITEMS_KEY") or "%(spider)s:items",
            items_serializer=settings.get("REDIS_ITEMS_SERIALIZER"),
            stats_key=_text(settings, "STATS_KEY", "%(spider)s:stats", spider=spider.name),
        )

    @property
    def wishes(self) -> Wishes:
        """For `Frontier.open`, as far as the project wishes anything."""
        wishes = Wishes(politeness=self.politeness, order=self.order)
        if self.seen is not None:
            wishes["seen"] = self.seen
        if self.capacity is not None:
            wishes["capacity"] = self.capacity
        if self.shards is not None:
            wishes["shards"] = self.shards
        return wishes


def crawl_name(settings: BaseSettings, spider: str) -> str:
    """SILKLINE_CRAWL, or what SCHEDULER_QUEUE_KEY says without its ``:requests``, or the spider's name.

    A name that a crawl cannot have is made one, and stays different from all others.
    """
    named = settings.get("SILKLINE_CRAWL")
    if named:
        return CrawlKeys(_text(settings, "SILKLINE_CRAWL", "", spider=spider)).crawl
    wanted = _text(settings, "SCHEDULER_QUEUE_KEY", "%(spider)s:requests", spider=spider).removesuffix(":requests")
    name = _NOT_IN_A_NAME.sub("-", wanted).lstrip("_.-")[:50]
    if name != wanted:
        name = f"{name or 'crawl'}-{hashlib.blake2b(wanted.encode(), digest_size=3).hexdigest()}"
    return CrawlKeys(name).crawl


def _politeness(settings: BaseSettings, spider: Spider) -> Politeness:
    delay = getattr(spider, "download_delay", None)
    if delay is None:
        delay = _number(settings, "DOWNLOAD_DELAY", 0.0)
    most = getattr(spider, "max_concurrent_requests", None) or _whole(settings, "CONCURRENT_REQUESTS_PER_DOMAIN", 8)
    return Politeness(delay=float(delay), concurrency=int(most) or MAX_CONCURRENCY)


def _overflow_of(url: str | None) -> str | None:
    """Beside the data of an embedded server, with which it belongs. For others there is no place that we could know to last."""
    directory = embedded_in(url)
    return None if directory is None else f"{directory}/overflow.db"


def _queue(settings: BaseSettings) -> type[Queue]:
    named = settings.get("SCHEDULER_QUEUE_CLASS") or "silkline.scrapy.queue.PriorityQueue"
    found = _loaded("SCHEDULER_QUEUE_CLASS", named)
    if not (isinstance(found, type) and issubclass(found, Queue)):
        raise ConfigError(
            f"SCHEDULER_QUEUE_CLASS={named!r} cannot be used: the queue is the frontier's, and the setting chooses its"
            " order. Known are silkline.scrapy.queue.PriorityQueue, FifoQueue and LifoQueue"
        )
    own = [name for name in QUEUE_METHODS if getattr(found, name, None) is not getattr(Queue, name, None)]
    if own:
        raise ConfigError(
            f"SCHEDULER_QUEUE_CLASS={named!r} cannot be used: it has a {own[0]} of its own, and nobody would call it."
            " Requests are stored and handed out by the frontier; set their priority to have some come first"
        )
    return found


def _kind(settings: BaseSettings) -> Literal["list", "set", "zset"]:
    if _yes(settings, "REDIS_START_URLS_AS_SET"):
        return "set"
    return "zset" if _yes(settings, "REDIS_START_URLS_AS_ZSET") else "list"


def _loaded(setting: str, path: Any) -> Any:
    try:
        return load_object(path)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise ConfigError(f"{setting}={path!r} cannot be imported: {error}") from None


def _yes(settings: BaseSettings, name: str, *, default: bool = False) -> bool:
    if settings.get(name) is None:
        return default
    try:
        return settings.getbool(name)
    except (ValueError, TypeError):
        raise ConfigError(f"{name} must be True or False, got {settings.get(name)!r}") from None


def _number(settings: BaseSettings, name: str, default: float = 0.0, *, least: float = 0.0) -> float:
    value = settings.get(name)
    try:
        number = default if value is None else float(value)
    except (ValueError, TypeError):
        number = -1.0
    if not least <= number < 1e9:
        raise ConfigError(f"{name} must be a number of at least {least:g}, got {value!r}")
    return number


def _whole(settings: BaseSettings, name: str, default: int = 0) -> int:
    value = settings.get(name)
    try:
        number = default if value is None else int(value)
    except (ValueError, TypeError):
        number = -1
    if number < 0:
        raise ConfigError(f"{name} must be a whole number of at least 0, got {value!r}")
    return number


def _maybe(settings: BaseSettings, name: str, read: Callable[[BaseSettings, str], T]) -> T | None:
    return None if settings.get(name) is None else read(settings, name)


def _text(settings: BaseSettings, name: str, default: str, /, **words: str) -> str:
    pattern = settings.get(name) or default
    try:
        return str(pattern) % words
    except (KeyError, ValueError, TypeError):
        known = ", ".join(f"%({word})s" for word in words)
        raise ConfigError(f"{name}={pattern!r} cannot be filled in; {known} is what may stand in it") from None
