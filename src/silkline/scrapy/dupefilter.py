"""`RFPDupeFilter`: the fingerprints of scrapy-redis.

The seen filter is part of the frontier; the scheduler uses a dupefilter only for its fingerprints.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable
from typing import Any, Self

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter
from scrapy.dupefilters import RFPDupeFilter as ScrapyDupeFilter
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.request import RequestFingerprinter, fingerprint, referer_str
from w3lib.url import canonicalize_url

from silkline.errors import ConfigError, SilklineError
from silkline.ops import identities
from silkline.scrapy import defaults
from silkline.scrapy.connection import get_redis_from_settings

IdentifyRequest = Callable[[Request], bytes]


class RFPDupeFilter(BaseDupeFilter):
    """Computes the fingerprints of scrapy-redis, so that an imported dupefilter of scrapy-redis stays valid.

    A REQUEST_FINGERPRINTER_CLASS of the project takes precedence, as does an overridden `request_fingerprint`. *server*
    and *key* are used without Silkline's scheduler, where fingerprints are kept in a Redis set, and by subclasses that
    override `request_seen`.
    """

    in_frontier = False
    """True in Silkline's scheduler, which keeps fingerprints in the frontier."""
    # Defaults for subclasses whose constructor does not call this one.
    _server: Any = None
    _settings: BaseSettings | None = None
    key = ""
    debug = False
    logdupes = True
    logger = logging.getLogger("silkline.scrapy.dupefilter")
    fingerprinter: Any = None
    """The project's own fingerprinter, if it has one."""

    def __init__(self, server: Any = None, key: str = "", debug: bool = False) -> None:  # noqa: FBT001, FBT002 - the signature of scrapy-redis
        self._server = server
        self.key = key
        self.debug = debug

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Create it from the settings, as scrapy-redis does."""
        return cls._make(settings, defaults.DUPEFILTER_KEY % {"timestamp": int(time.time())})

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create it for a crawler, as Scrapy does."""
        made = cls.from_settings(crawler.settings)
        made.take_fingerprinter(crawler)
        return made

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """Return a filter with the key of the spider, as a scheduler uses it."""
        settings = spider.crawler.settings
        key = settings.get("SCHEDULER_DUPEFILTER_KEY") or defaults.SCHEDULER_DUPEFILTER_KEY
        made = cls._make(settings, key % {"spider": spider.name})
        made.take_fingerprinter(spider.crawler)
        return made

    @classmethod
    def _make(cls, settings: BaseSettings, key: str) -> Self:
        own = cls.__init__ is not RFPDupeFilter.__init__  # a subclass may use the server in its constructor
        server = get_redis_from_settings(settings) if own else None
        made = cls(server, key=key, debug=settings.getbool("DUPEFILTER_DEBUG"))
        made._settings = settings
        return made

    def take_fingerprinter(self, crawler: Crawler) -> None:
        """Use the fingerprinter of the project."""
        fingerprinter: Any = crawler.request_fingerprinter
        if type(fingerprinter) is not RequestFingerprinter:
            self.fingerprinter = fingerprinter

    @property
    def server(self) -> Any:
        """A redis-py client, created at first use."""
        if self._server is None and self._settings is not None:
            self._server = get_redis_from_settings(self._settings)
        return self._server

    @server.setter
    def server(self, server: Any) -> None:
        self._server = server

    def request_fingerprint(self, request: Request) -> str:
        """Return the fingerprint of *request* as 40 hexadecimal digits."""
        if self.fingerprinter is not None:
            found: bytes = self.fingerprinter.fingerprint(request)
            return found.hex()
        parts = {"method": request.method, "url": canonicalize_url(request.url), "body": request.body.hex()}
        return hashlib.sha1(json.dumps(parts, sort_keys=True).encode(), usedforsecurity=False).hexdigest()

    def request_seen(self, request: Request) -> bool:
        """Add the fingerprint to the Redis set, and return whether it was there. For use without Silkline's scheduler."""
        if self.in_frontier:
            raise SilklineError(
                "request_seen() is not available with Silkline's scheduler: the seen filter is in the frontier. To check a"
                " URL, run: silkline explain URL"
            )
        if self.server is None:
            raise ConfigError("a dupefilter without a scheduler needs a server: create it with from_settings(settings)")
        return bool(self.server.sadd(self.key, self.request_fingerprint(request)) == 0)

    def clear(self) -> None:
        """Delete the Redis set. Raises `SilklineError` with Silkline's scheduler."""
        if self.in_frontier:
            raise SilklineError(
                "the seen filter cannot be cleared alone: it is part of the crawl. To remove the whole crawl, call the"
                " scheduler's flush() after the spider has closed, or set SCHEDULER_FLUSH_ON_START=True for the next run"
            )
        if self.server is not None:
            self.server.delete(self.key)

    def close(self, reason: str = "") -> None:  # noqa: ARG002 - the signature of Scrapy
        """Delete the Redis set. Silkline's scheduler keeps fingerprints in the frontier, where this does nothing."""
        if not self.in_frontier:
            self.clear()

    def log(self, request: Request, spider: Spider) -> None:
        """Log a filtered request; only the first one, unless DUPEFILTER_DEBUG is set."""
        if self.debug or self.logdupes:
            more = (
                ""
                if self.debug
                else " - no more duplicates will be shown (see DUPEFILTER_DEBUG to show all duplicates)"
            )
            self.logger.debug(
                "Filtered duplicate request: %(request)s (referer: %(referer)s)%(more)s",
                {"request": request, "referer": referer_str(request), "more": more},
                extra={"spider": spider},
            )
            self.logdupes = False
        stats: Any = spider.crawler.stats
        stats.inc_value("dupefilter/filtered")


class ProjectDupeFilter(RFPDupeFilter):
    """Used if a project names no filter: the fingerprints of Scrapy or of its REQUEST_FINGERPRINTER_CLASS."""

    def take_fingerprinter(self, crawler: Crawler) -> None:
        """Use the fingerprinter of the project."""
        self.fingerprinter = crawler.request_fingerprinter


def find_filter(crawler: Crawler) -> tuple[Any, IdentifyRequest | None]:
    """Return the project's filter and its fingerprint function; None instead of it if the filter keeps its own seen set."""
    named = crawler.settings["DUPEFILTER_CLASS"]
    try:
        cls: Any = load_object(named)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise ConfigError(f"DUPEFILTER_CLASS={named!r} cannot be imported: {error}") from None
    if cls is ScrapyDupeFilter:
        cls = ProjectDupeFilter
    filter_ = _build(cls, crawler)
    if not _keeps_no_seen_set(cls):
        return filter_, None
    filter_.in_frontier = True
    plain = isinstance(filter_, RFPDupeFilter) and cls.request_fingerprint is RFPDupeFilter.request_fingerprint
    if plain and filter_.fingerprinter is not None:
        return filter_, filter_.fingerprinter.fingerprint

    def identify(request: Request) -> bytes:
        found = filter_.request_fingerprint(request)
        return found.encode() if isinstance(found, str) else bytes(found)

    return filter_, identify


def _build(cls: Any, crawler: Crawler) -> Any:
    """Create a filter as scrapy-redis does, or else as Scrapy does."""
    if hasattr(cls, "from_spider"):
        return cls.from_spider(crawler.spider)
    return cls.from_crawler(crawler) if hasattr(cls, "from_crawler") else cls.from_settings(crawler.settings)


def fingerprints_by_url(filter_: Any) -> bool:
    """Return whether the fingerprint of a GET depends on its URL only, as with Scrapy's and scrapy-redis' filters."""
    if type(filter_) not in (RFPDupeFilter, ProjectDupeFilter):
        return False
    return filter_.fingerprinter is None or type(filter_.fingerprinter) is RequestFingerprinter


def _keeps_no_seen_set(cls: type) -> bool:
    """Return whether a filter class uses the `request_seen` of Scrapy or scrapy-redis."""
    for known in (RFPDupeFilter, ScrapyDupeFilter):
        if issubclass(cls, known):
            return cls.request_seen is known.request_seen
    return False


def identities_of(url: str) -> tuple[bytes, ...]:
    """Return the fingerprints of Scrapy and of scrapy-redis for a URL. A fingerprinter of the project is not considered."""
    request = Request(url)
    return fingerprint(request), RFPDupeFilter().request_fingerprint(request).encode()


identities.register(identities_of)
