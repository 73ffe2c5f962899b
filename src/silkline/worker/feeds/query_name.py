"""The name of a feed that is a query: ``postgresql://HOST/DATABASE?query=SELECT …``."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

import xxhash

from silkline.errors import ConfigError
from silkline.frontier.transport.redis_url import without_password

QUERY = ("postgresql://", "postgres://")
LONGEST_SHOWN = 150
_QUERY = re.compile(r"[?&]query=", re.IGNORECASE)


class QueryName(NamedTuple):
    """What the name of a feed says."""

    url: str
    """The address of the server, with its password."""
    query: str
    public: str
    """The name without the password."""


def read_query_name(feed: str) -> QueryName:
    """Return what ``postgresql://…?query=…`` says. The query is all that follows, also ``&`` and ``+``; ``%20`` is a space."""
    found = _QUERY.search(feed)
    query = unquote(feed[found.end() :]).strip().rstrip(";") if found else ""
    if not found or not query:
        raise ConfigError(
            f"{without_password(feed)[:200]!r}: a feed of a database is postgresql://USER@HOST/DATABASE?query=SELECT …"
        )
    url = feed[: found.start()]
    shown = (
        query
        if len(query) <= LONGEST_SHOWN
        else f"{query[:LONGEST_SHOWN]}… {xxhash.xxh3_64_hexdigest(query.encode())[:8]}"
    )
    return QueryName(url, query, f"{without_password(url)}{found[0]}{' '.join(shown.split())}")


def public_name(feed: str) -> str:
    """Return the name of any feed as it may be shown: without a password."""
    return read_query_name(feed).public if feed.startswith(QUERY) else feed


def has_secret(feed: str) -> bool:
    """Return whether the name of a feed contains a password."""
    return feed.startswith(QUERY) and without_password(url := read_query_name(feed).url) != url
