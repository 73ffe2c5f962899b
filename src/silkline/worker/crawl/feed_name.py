"""The names of feeds, as users write them: ``redis:KEY``."""

from __future__ import annotations

from silkline.errors import ConfigError
from silkline.frontier.store.keys import InboxKeys

REDIS = "redis:"


def check_feed(feed: object) -> str:
    """Return the name of a feed. Raises `ConfigError` if there is no such kind of feed."""
    if not isinstance(feed, str):
        raise ConfigError(f"a feed is a string such as 'redis:KEY', got {feed!r:.100}")
    if feed.startswith(REDIS) and not feed.startswith("redis://"):
        InboxKeys(feed.removeprefix(REDIS))
        return feed
    raise ConfigError(
        f"unknown feed {feed[:100]!r}: a feed is redis:KEY, a list, set, sorted set or stream on the crawl's server"
    )


def is_shared(feed: str) -> bool:
    """Return whether workers on every machine can read a feed."""
    return feed.startswith(REDIS)
