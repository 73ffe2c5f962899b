"""RFPDupeFilter: how scrapy-redis tells requests apart, for projects that named its filter.

What was seen is in the frontier; of a filter the scheduler only wants the fingerprint.
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
from scrapy.utils.request import RequestFingerprinter, referer_str
from w3lib.url import canonicalize_url

from silkline.core.errors import ConfigError, SilklineError
from silkline.scrapy.connection import get_redis_from_settings

Identify = Callable[[Request], bytes]


class RFPDupeFilter(BaseDupeFilter):
    """Fingerprints as scrapy-redis makes them, so that a dupefilter of its own, once imported, stays valid.

    A project's own REQUEST_FINGERPRINTER_CLASS goes before, and so does a `request_fingerprint` that is overridden.
    *server* and *key* are for use without a scheduler, when what was seen is a set in Redis, and for filters of a
    project's own that override `request_seen`.
    """

    in_frontier = False
    """Whether a scheduler of ours has it, which keeps in the frontier what was seen."""

    def __init__(self, server: Any = None, key: str = "", debug: bool = False) -> None:  # noqa: FBT001, FBT002 - as ever
        self._server = server
        self._settings: BaseSettings | None = None
        self.key = key
        self.debug = debug
        self.logdupes = True
        self.logger = logging.getLogger("silkline.scrapy.dupefilter")
        self.fingerprinter: Any = None
        """The project's own, if it has one."""

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return cls._make(settings, f"dupefilter:{int(time.time())}")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        made = cls.from_settings(crawler.settings)
        made.take_fingerprinter(crawler)
        return made

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """As a scheduler has it: the key is that of the spider."""
        settings = spider.crawler.settings
        key = settings.get("SCHEDULER_DUPEFILTER_KEY") or "%(spider)s:dupefilter"
        made = cls._make(settings, key % {"spider": spider.name})
        made.take_fingerprinter(spider.crawler)
        return made

    @classmethod
    def _make(cls, settings: BaseSettings, key: str) -> Self:
        own = cls.__init__ is not RFPDupeFilter.__init__  # which may use the server at once
        server = get_redis_from_settings(settings) if own else None
        made = cls(server, key=key, debug=settings.getbool("DUPEFILTER_DEBUG"))
        made._settings = settings
        return made

    def take_fingerprinter(self, crawler: Crawler) -> None:
        fingerprinter: Any = crawler.request_fingerprinter
        if type(fingerprinter) is not RequestFingerprinter:
            self.fingerprinter = fingerprinter

    @property
    def server(self) -> Any:
        """A client of redis-py; made when it is first asked for."""
        if self._server is None and self._settings is not None:
            self._server = get_redis_from_settings(self._settings)
        return self._server

    @server.setter
    def server(self, server: Any) -> None:
        self._server = server

    def request_fingerprint(self, request: Request) -> str:
        """40 hexadecimal digits that tell *request* from others."""
        if self.fingerprinter is not None:
            found: bytes = self.fingerprinter.fingerprint(request)
            return found.hex()
        parts = {"method": request.method, "url": canonicalize_url(request.url), "body": request.body.hex()}
        return hashlib.sha1(json.dumps(parts, sort_keys=True).encode(), usedforsecurity=False).hexdigest()

    def request_seen(self, request: Request) -> bool:
        """Without a scheduler: whether the set has it; it has it from now on."""
        if self.in_frontier:
            raise SilklineError("what was seen is in the frontier, which the scheduler asks: see silkline explain URL")
        if self.server is None:
            raise ConfigError("a dupefilter without a scheduler needs a server: use from_settings(settings)")
        return bool(self.server.sadd(self.key, self.request_fingerprint(request)) == 0)

    def clear(self) -> None:
        """Forget what was seen; of a crawl it is forgotten with all the rest."""
        if self.in_frontier:
            raise SilklineError(
                "what was seen is a part of the crawl. The scheduler's flush() removes it once the spider has closed,"
                " SCHEDULER_FLUSH_ON_START=True when the next one opens"
            )
        if self.server is not None:
            self.server.delete(self.key)

    def close(self, reason: str = "") -> None:
        """Nothing to do: the frontier decides what outlives the spider."""

    def log(self, request: Request, spider: Spider) -> None:
        """Say that a request was filtered; only of the first one, unless DUPEFILTER_DEBUG."""
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
    """For a project that names no filter: Scrapy's fingerprints, or those of its REQUEST_FINGERPRINTER_CLASS."""

    def take_fingerprinter(self, crawler: Crawler) -> None:
        self.fingerprinter = crawler.request_fingerprinter


def find_filter(crawler: Crawler) -> tuple[Any, Identify | None]:
    """The project's filter, and how it tells requests apart; None if it keeps to itself what it has seen."""
    named = crawler.settings["DUPEFILTER_CLASS"]
    try:
        cls: Any = load_object(named)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise ConfigError(f"DUPEFILTER_CLASS={named!r} cannot be imported: {error}") from None
    if cls is ScrapyDupeFilter:
        cls = ProjectDupeFilter
    filter_ = _build(cls, crawler)
    if not _is_by_fingerprint(cls):
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
    """As scrapy-redis makes filters, or else as Scrapy does."""
    if hasattr(cls, "from_spider"):
        return cls.from_spider(crawler.spider)
    return cls.from_crawler(crawler) if hasattr(cls, "from_crawler") else cls.from_settings(crawler.settings)


def is_by_url(filter_: Any) -> bool:
    """Whether of a GET nothing but the URL makes the fingerprint: so it is for Scrapy's own, and for scrapy-redis'."""
    if type(filter_) not in (RFPDupeFilter, ProjectDupeFilter):
        return False
    return filter_.fingerprinter is None or type(filter_.fingerprinter) is RequestFingerprinter


def _is_by_fingerprint(cls: type) -> bool:
    """Whether only the fingerprint was overridden, if anything."""
    for known in (RFPDupeFilter, ScrapyDupeFilter):
        if issubclass(cls, known):
            return cls.request_seen is known.request_seen
    return False
