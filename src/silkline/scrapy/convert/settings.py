"""The settings of a project that concern the plugin. They are read and checked once, when the spider opens."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from scrapy import Spider
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from silkline.core.politeness import MAX_CONCURRENCY, Politeness
from silkline.errors import ConfigError
from silkline.frontier.arguments import CrawlArguments, embedded_in
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.store.settings import Durability, QueueOrder
from silkline.frontier.transport.redis_url import read_url
from silkline.frontier.user_keys.inbox import KeyKind
from silkline.frontier.verbs.hosts import HostArguments, host_words
from silkline.scrapy import defaults
from silkline.scrapy.connection import redis_params
from silkline.scrapy.convert.slots import queue_name
from silkline.scrapy.queue import Queue

log = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_LEASE = 30.0
DEFAULT_BLOCKED_LIMIT = 120.0
"""Seconds. Callbacks run on Scrapy's reactor, and some of them compute for a long time."""
NO_LIMITS = Politeness(delay=0.0, concurrency=MAX_CONCURRENCY)
"""The politeness of the crawl if every process limits itself (SILKLINE_POLITENESS_CLUSTER_WIDE=False)."""

SETTING_NAMES = (
    "SILKLINE_CRAWL", "SILKLINE_LEASE", "SILKLINE_BLOCKED_LIMIT", "SILKLINE_POLITENESS_CLUSTER_WIDE", "SILKLINE_SEEN",
    "SILKLINE_CAPACITY", "SILKLINE_SHARDS", "SILKLINE_OVERFLOW", "SILKLINE_ALLOW_PRIVATE", "SILKLINE_CLASSES",
    "SILKLINE_DEAD_LIMIT", "SILKLINE_DURABILITY", "SILKLINE_GC_FREEZE",
)  # fmt: skip
"""Silkline's own settings."""

QUEUE_METHODS = ("__len__", "push", "pop", "clear", "_encode_request", "_decode_request", "__init__")
"""Methods that subclasses of scrapy-redis' queues override."""

PARTS = {
    "REDIS_URL": "url", "REDIS_HOST": "host", "REDIS_PORT": "port", "REDIS_DB": "db", "REDIS_USERNAME": "username",
    "REDIS_PASSWORD": "password",
}  # fmt: skip
"""Settings that override the part of REDIS_PARAMS with this name."""
PLACES = ("url", "host", "port", "db", "unix_socket_path")
"""The parts that name a server."""
_IGNORED = ("encoding", "decode_responses", "retry_on_timeout", "max_connections", "redis_cls", "errors", "protocol")
"""Options of redis-py that Silkline's own connections ignore: they have their own, or read them elsewhere."""
_UNUSED = frozenset((
    "auto_close_connection_pool", "cache", "cache_config", "charset", "cluster_error_retry_attempts", "command_packer",
    "connection_error_retry_attempts", "driver_info", "dynamic_startup_nodes", "encoding_errors", "event_dispatcher",
    "legacy_responses", "lib_name", "lib_version", "load_balancing_strategy", "maint_notifications_config", "parser_class",
    "policy_resolver", "queue_class", "read_from_replicas", "readonly_mode", "reinitialize_steps", "require_full_coverage",
    "retry", "retry_on_error", "single_connection_client", "skip_full_coverage_check", "socket_keepalive_options",
    "socket_read_size", "socket_type", "timeout",
))  # fmt: skip
"""Options of redis-py that a project may have chosen, and that Silkline's own connections ignore too, with a warning."""
_PASSED = ("socket_timeout", "socket_connect_timeout", "socket_keepalive", "health_check_interval", "client_name")

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOptions:
    """The settings of one crawl. `read` raises `ConfigError` for a value that cannot be used."""

    url: str | None
    """The URL of the server; None for the embedded server."""
    crawl: str
    spider: str = ""
    queue_key: str = ""
    """The key in which scrapy-redis stores requests. Silkline only looks whether there are any."""
    persist: bool = False
    flush_on_start: bool = False
    idle_before_close: float = 0.0

    order: QueueOrder = "fifo"
    by_priority: bool = True
    """False for FifoQueue and LifoQueue, which ignore priorities."""
    cluster_wide: bool = True
    politeness: Politeness = NO_LIMITS
    slots: Mapping[str, HostArguments] = field(default_factory=dict)
    """DOWNLOAD_SLOTS: hosts and download slots with limits of their own, by the name of their queue."""
    concurrency: int = 16
    """CONCURRENT_REQUESTS."""
    obey_robots: bool = False
    lease: float = DEFAULT_LEASE
    blocked_limit: float = DEFAULT_BLOCKED_LIMIT
    """Seconds for which leases are extended while the reactor is blocked; 0 for no limit."""
    seen: str | None = None
    capacity: int | None = None
    dead_limit: int | None = None
    durability: Durability | None = None
    shards: int | None = None
    overflow: str | None = None
    gc_freeze: bool = True

    @classmethod
    def read(cls, settings: BaseSettings, spider: Spider) -> PluginOptions:
        """Return the options of a crawl of *spider*, or raise `ConfigError`."""
        unknown = sorted(name for name in settings if str(name).startswith("SILKLINE_") and name not in SETTING_NAMES)
        if unknown:
            raise ConfigError(
                f"unknown setting {', '.join(unknown)}; Silkline's settings are {', '.join(SETTING_NAMES)}"
            )
        _check_unread(settings, spider)
        queue, url = _queue(settings), server_url(settings)
        cluster_wide = _yes(settings, "SILKLINE_POLITENESS_CLUSTER_WIDE", default=True)
        return cls(
            url=url,
            crawl=crawl_name(settings, spider.name),
            spider=spider.name,
            queue_key=_unread_key(settings, spider.name),
            persist=_yes(settings, "SCHEDULER_PERSIST"),
            flush_on_start=_yes(settings, "SCHEDULER_FLUSH_ON_START"),
            idle_before_close=_number(settings, "SCHEDULER_IDLE_BEFORE_CLOSE", 0.0),
            order=queue.order,
            by_priority=queue.by_priority,
            cluster_wide=cluster_wide,
            politeness=_politeness(settings, spider) if cluster_wide else NO_LIMITS,
            slots=_slots(settings) if cluster_wide else {},
            concurrency=_whole(settings, "CONCURRENT_REQUESTS", 16) or 1000,  # 0 means no limit
            obey_robots=_yes(settings, "ROBOTSTXT_OBEY"),
            lease=_number(settings, "SILKLINE_LEASE", DEFAULT_LEASE, least=1.0),
            blocked_limit=_number(settings, "SILKLINE_BLOCKED_LIMIT", DEFAULT_BLOCKED_LIMIT),
            seen=settings.get("SILKLINE_SEEN"),
            capacity=_maybe(settings, "SILKLINE_CAPACITY", _whole),
            dead_limit=_maybe(settings, "SILKLINE_DEAD_LIMIT", _whole),
            durability=settings.get("SILKLINE_DURABILITY"),
            shards=_maybe(settings, "SILKLINE_SHARDS", _whole),
            overflow=settings.get("SILKLINE_OVERFLOW") or _overflow_of(url),
            gc_freeze=_yes(settings, "SILKLINE_GC_FREEZE", default=True),
        )

    @property
    def arguments(self) -> CrawlArguments:
        """The arguments of `Frontier.open` that the project has set."""
        arguments = CrawlArguments(politeness=self.politeness, order=self.order)
        if self.seen is not None:
            arguments["seen"] = self.seen
        if self.capacity is not None:
            arguments["capacity"] = self.capacity
        if self.dead_limit is not None:
            arguments["dead_limit"] = self.dead_limit
        if self.durability is not None:
            arguments["durability"] = self.durability
        if self.shards is not None:
            arguments["shards"] = self.shards
        return arguments


def check_settings(settings: BaseSettings, spider: Spider) -> PluginOptions:
    """Return the options of a crawl of *spider*. Raises `ConfigError` for all settings that are wrong in themselves."""
    options = PluginOptions.read(settings, spider)
    if options.url is not None and not embedded_in(options.url):
        read_url(options.url)
    return options


def crawl_name(settings: BaseSettings, spider: str) -> str:
    """Return the name of a spider's crawl: SILKLINE_CRAWL, or the key of its queue without ``:requests``.

    The key is that of the queue class, if it has one, else SCHEDULER_QUEUE_KEY.

    Characters that a crawl's name cannot have are replaced, and a hash of the original keeps the name unique.
    """
    named = settings.get("SILKLINE_CRAWL")
    if named:
        return CrawlKeys(_text(settings, "SILKLINE_CRAWL", "", spider=spider)).crawl
    wanted = _queue_key(settings, spider).removesuffix(":requests")
    name = _NOT_IN_A_NAME.sub("-", wanted).lstrip("_.-")[:50]
    if name != wanted:
        name = f"{name or 'crawl'}-{hashlib.blake2b(wanted.encode(), digest_size=3).hexdigest()}"
    return CrawlKeys(name).crawl


def _unread_key(settings: BaseSettings, spider: str) -> str:
    """Return the key in which scrapy-redis would store requests. A key of the queue class counts if it names the crawl."""
    if settings.get("SILKLINE_CRAWL"):
        return _text(settings, "SCHEDULER_QUEUE_KEY", defaults.SCHEDULER_QUEUE_KEY, spider=spider)
    return _queue_key(settings, spider)


def _queue_key(settings: BaseSettings, spider: str) -> str:
    """Return the key of the queue. Raises `ConfigError` if the queue class has another one than the settings, or computes it."""
    named = settings.get("SCHEDULER_QUEUE_CLASS")
    own = getattr(_loaded("SCHEDULER_QUEUE_CLASS", named), "key", None) if named else None
    if own is not None and not isinstance(own, str):
        raise ConfigError(
            f"SCHEDULER_QUEUE_CLASS={named!r} cannot be used: its key is a {type(own).__name__}, and Silkline names the crawl before"
            " there is a queue. Make key a string, which may contain %(spider)s, or set SCHEDULER_QUEUE_KEY"
        )
    key = _text(settings, "SCHEDULER_QUEUE_KEY", defaults.SCHEDULER_QUEUE_KEY, spider=spider)
    if own is None:
        return key
    own_key = _filled(f"the key {own!r} of the queue class {named!r}", own, spider=spider)
    if settings.get("SCHEDULER_QUEUE_KEY") and own_key != key:
        raise ConfigError(
            f"SCHEDULER_QUEUE_KEY is {key!r}, but the queue class {named!r} has the key {own_key!r}: keep one of them, it names the"
            " crawl"
        )
    return own_key


def _politeness(settings: BaseSettings, spider: Spider) -> Politeness:
    delay = getattr(spider, "download_delay", None)
    if delay is None:
        delay = _number(settings, "DOWNLOAD_DELAY", 0.0)
    most = getattr(spider, "max_concurrent_requests", None) or _whole(settings, "CONCURRENT_REQUESTS_PER_DOMAIN", 8)
    return Politeness(delay=float(delay), concurrency=int(most) or MAX_CONCURRENCY)


def _slots(settings: BaseSettings) -> dict[str, HostArguments]:
    """Return the limits of DOWNLOAD_SLOTS. Scrapy's downloader keeps them in each process; the frontier keeps them for all workers."""
    found: dict[str, HostArguments] = {}
    for slot, limits in settings.getdict("DOWNLOAD_SLOTS").items():
        try:
            pace = HostArguments()
            if limits.get("delay") is not None:
                pace["delay"] = float(limits["delay"])
            if limits.get("concurrency") is not None:
                pace["concurrency"] = int(limits["concurrency"]) or MAX_CONCURRENCY
            host_words(pace)
        except (AttributeError, TypeError, ValueError, ConfigError) as error:
            raise ConfigError(f"DOWNLOAD_SLOTS[{slot!r}] cannot be used: {error}") from None
        found[queue_name(str(slot))] = pace
    return found


def _overflow_of(url: str | None) -> str | None:
    """Return a file beside the data of an embedded server. For other servers no durable place is known."""
    directory = embedded_in(url)
    return None if directory is None else f"{directory}/overflow.db"


def _queue(settings: BaseSettings) -> type[Queue]:
    named = settings.get("SCHEDULER_QUEUE_CLASS") or defaults.SCHEDULER_QUEUE_CLASS
    found = _loaded("SCHEDULER_QUEUE_CLASS", named)
    if not (isinstance(found, type) and issubclass(found, Queue)):
        raise ConfigError(
            f"SCHEDULER_QUEUE_CLASS={named!r} cannot be used: the frontier is the queue, and the setting only chooses its"
            " order. Use PriorityQueue, FifoQueue or LifoQueue of silkline.scrapy.queue"
        )
    own = [name for name in QUEUE_METHODS if getattr(found, name).__module__ != Queue.__module__]
    if own == ["__init__"]:
        raise ConfigError(
            f"SCHEDULER_QUEUE_CLASS={named!r} cannot be used: it overrides __init__, which Silkline does not call with a server, a"
            " spider and a key. To name the crawl, give the class a key = '...:requests', or set SCHEDULER_QUEUE_KEY"
        )
    if own:
        raise ConfigError(
            f"SCHEDULER_QUEUE_CLASS={named!r} cannot be used: it overrides {own[0]}, which Silkline does not call. The"
            " frontier stores and returns requests; set their priority to change their order"
        )
    return found


def _check_unread(settings: BaseSettings, spider: Spider) -> None:
    """Raise `ConfigError` now for settings that spiders, pipelines and stats collectors read later, in ways of their own."""
    _number(settings, "MAX_IDLE_TIME_BEFORE_CLOSE")
    _number(settings, "REDIS_KEY_CHECK_INTERVAL")
    _text(settings, "REDIS_START_URLS_KEY", defaults.START_URLS_KEY, name=spider.name)
    _text(settings, "STATS_KEY", defaults.STATS_KEY, spider=spider.name)
    if serializer := settings.get("REDIS_ITEMS_SERIALIZER"):
        _loaded("REDIS_ITEMS_SERIALIZER", serializer)
    start_kind(settings)


def start_kind(settings: BaseSettings) -> KeyKind:
    """Return the type of the keys from which start messages are read."""
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
    return _filled(f"{name}={pattern!r}", str(pattern), **words)


def _filled(what: str, pattern: str, /, **words: str) -> str:
    try:
        return pattern % words
    except (KeyError, ValueError, TypeError):
        known = ", ".join(f"%({word})s" for word in words)
        raise ConfigError(f"{what} is not a valid pattern; it may contain {known}") from None


# ── the URL of the server ──


def server_url(settings: BaseSettings) -> str | None:
    """Return the URL of the server for `Frontier.open`; None, for the embedded server, if the project names no server.

    REDIS_URL, REDIS_HOST, REDIS_PORT, REDIS_DB, REDIS_USERNAME and REDIS_PASSWORD override REDIS_PARAMS.
    """
    params = _params(settings)
    if not any(params.get(part) for part in PLACES):
        return None
    url, cluster = params.pop("url", None), _is_cluster(params.get("redis_cls"))
    options = _options(params)
    if not url:
        url = _compose(params)
    if not isinstance(url, str):
        raise ConfigError(f"REDIS_URL must be a string such as redis://localhost:6379/0, got {url!r}")
    scheme, separator, rest = url.partition("://")
    if separator and "@" not in rest:
        url = f"{scheme}://{_login(params)}{rest}"
    if cluster and "+cluster" not in url:
        url = url.replace("://", "+cluster://", 1)
    return url + (("&" if "?" in url else "?") + urlencode(options) if options else "")


def use_local_server(settings: BaseSettings) -> None:
    """Set REDIS_HOST to localhost if the project names no server, as scrapy-redis does."""
    with suppress(ConfigError):  # `PluginOptions.read` raises it, where it can be logged as one sentence
        if not any(_params(settings).get(part) for part in PLACES):
            settings.set("REDIS_HOST", "localhost", "addon")


def _params(settings: BaseSettings) -> dict[str, Any]:
    return redis_params(settings) | {part: settings.get(name) for name, part in PARTS.items() if settings.get(name)}


def _compose(params: dict[str, Any]) -> str:
    if params.get("unix_socket_path"):
        return f"unix://{_login(params)}{params['unix_socket_path']}?db={params.get('db') or 0}"
    scheme = "rediss" if params.get("ssl") else "redis"
    host = str(params.get("host") or "localhost")
    place = f"[{host}]" if ":" in host else host
    return f"{scheme}://{_login(params)}{place}:{params.get('port') or 6379}/{params.get('db') or 0}"


def _login(params: dict[str, Any]) -> str:
    user, password = params.get("username"), params.get("password")
    if not user and not password:
        return ""
    return f"{quote(str(user or ''), safe='')}:{quote(str(password or ''), safe='')}@"


def _options(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters for the query of the URL."""
    known = ("host", "port", "db", "username", "password", "ssl", "unix_socket_path")
    options: dict[str, Any] = {}
    for name, value in params.items():
        if value is None or name in known or name in _IGNORED or name in _UNUSED:
            continue
        if name not in _PASSED and not (name.startswith("ssl_") and isinstance(value, str | int)):
            raise ConfigError(
                f"REDIS_PARAMS has {name!r}, which Silkline does not support, and which may change the server or the login. Remove it, or"
                " put it into REDIS_URL if Redis URLs have it"
            )
        options[name] = value
    return options


def warn_of_unused_params(settings: BaseSettings) -> None:
    """Log one warning for the options in REDIS_PARAMS that Silkline's own connections ignore."""
    unused = sorted(name for name, value in _params(settings).items() if name in _UNUSED and value is not None)
    if unused:
        log.warning(
            "REDIS_PARAMS: Silkline's scheduler ignores %s, for it has its own connections, which wait for a server that cannot be"
            " reached. The client of get_redis_from_settings, which spiders and pipelines use, still gets them",
            ", ".join(unused),
        )


def _is_cluster(cls: Any) -> bool:
    return "Cluster" in (cls if isinstance(cls, str) else getattr(cls, "__name__", ""))
