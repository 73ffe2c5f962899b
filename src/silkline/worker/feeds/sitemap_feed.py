"""SitemapFeed: the sitemaps of a site. The feed enqueues the first one; the handler in `crawl.sitemap` reads it, and those that it lists."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import parse_qsl

from silkline.core.url import mask_passwords, parse
from silkline.errors import ConfigError, RequestError
from silkline.worker.crawl.sitemap import SitemapPlan, read_date
from silkline.worker.feeds.feed_entry import FeedEntry

SITEMAP_FEED = "sitemap:"
TURN = 3600.0
"""Seconds within which a sitemap is read once, however many workers and runs name it."""


class SitemapName(NamedTuple):
    """What the name of a feed says: ``sitemap:URL#since=2026-01-31&handler=product``."""

    url: str
    since: str = ""
    handler: str | None = None


def read_name(feed: str) -> SitemapName:
    """Return what ``sitemap:…`` says. A host alone stands for its robots.txt. Raises `ConfigError` if it is wrong."""
    url, _, options = feed.removeprefix(SITEMAP_FEED).partition("#")
    shown = repr(mask_passwords(feed)[:200])
    if url and "/" not in url:
        url = f"https://{url}/robots.txt"
    try:
        address = parse(url)
    except RequestError as error:
        raise ConfigError(f"{shown}: a feed of sitemaps is sitemap:URL or sitemap:HOST; {error}") from None
    given = dict(parse_qsl(options, keep_blank_values=True))
    if unknown := set(given) - {"since", "handler"}:
        raise ConfigError(
            f"{shown}: unknown option {min(unknown)[:50]!r}; the options are #since=DATE and #handler=NAME"
        )
    if "since" in given and not read_date(given["since"]):
        raise ConfigError(f"{shown}: since must be a date such as 2026-01-31, got {given['since'][:50]!r}")
    return SitemapName(address.url, given.get("since", ""), given.get("handler"))


class SitemapFeed:
    """One request for a sitemap. Every worker offers it; the frontier stores it once."""

    endless = False
    kept = math.inf

    def __init__(self, name: str, handlers: Collection[str]) -> None:
        self.name = mask_passwords(name)
        self._sitemap = read_name(name)
        if self._sitemap.handler is not None and self._sitemap.handler not in handlers:
            raise ConfigError(
                f"{self.name[:200]!r}: the crawl has no handler {self._sitemap.handler[:50]!r}; its handlers are {', '.join(handlers)[:200]}"
            )
        self._taken = self._over = False

    async def take(self, n: int) -> list[FeedEntry]:
        if self._taken or not n:
            return []
        self._taken = True
        turn = datetime.fromtimestamp(time.time() // TURN * TURN, UTC).isoformat()
        plan = SitemapPlan(since=self._sitemap.since, handler=self._sitemap.handler, turn=turn)
        return [FeedEntry(plan.request(self._sitemap.url), self._sitemap.url.encode(), None)]

    async def keep(self, entries: Sequence[FeedEntry]) -> None:
        """There is nothing to do: it can be taken at any time."""

    async def done(self, entries: Sequence[FeedEntry]) -> None:
        self._over = self._over or bool(entries)

    async def refuse(self, entries: Sequence[FeedEntry]) -> None:
        await self.done(entries)

    async def release(self, entries: Sequence[FeedEntry]) -> None:
        self._taken = self._taken and not entries

    async def abandon(self) -> None:
        self._taken = self._over

    def where(self, _entry: FeedEntry) -> str:
        return ""

    async def ended(self) -> bool:
        return self._over

    async def close(self) -> None:
        """There is nothing to close."""
