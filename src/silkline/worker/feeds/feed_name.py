"""The names of feeds, as users write them: ``redis:KEY``, ``sitemap:URL``, ``postgresql://…?query=…`` or a file."""

from __future__ import annotations

import os
from collections.abc import Iterable

from silkline.errors import ConfigError
from silkline.frontier.store.keys import InboxKeys
from silkline.frontier.transport.redis_url import without_password
from silkline.worker.feeds.entry_file import format_of
from silkline.worker.feeds.query_name import QUERY, read_query_name
from silkline.worker.feeds.sitemap_feed import SITEMAP_FEED, read_name

REDIS = "redis:"


def check_feed(feed: object) -> str:
    """Return the name of a feed, with an absolute path for a file. Raises `ConfigError` if there is no such kind of feed."""
    if not isinstance(feed, str | os.PathLike):
        raise ConfigError(f"a feed is a string such as 'redis:KEY' or 'urls.csv', got {feed!r:.100}")
    feed = os.fspath(feed)
    if feed.startswith(REDIS) and not feed.startswith("redis://"):
        InboxKeys(feed.removeprefix(REDIS))
        return feed
    if feed.startswith(SITEMAP_FEED):
        read_name(feed)
        return feed
    if feed.startswith(QUERY):
        read_query_name(feed)
        return feed
    if "://" not in feed and format_of(feed):
        return os.path.abspath(feed)  # noqa: PTH100 - the working directory may change, and links may
    raise ConfigError(
        f"unknown feed {without_password(feed)[:100]!r}: a feed is redis:KEY, a list, set, sorted set or stream on the crawl's server; a file: "
        "x.txt, x.csv, x.jsonl, x.parquet (also .gz and .zst); sitemap:URL; or postgresql://…?query=SELECT …"
    )


def is_endless(feeds: Iterable[str]) -> bool:
    """Return whether new entries may always come."""
    return any(feed.startswith(REDIS) for feed in feeds)
