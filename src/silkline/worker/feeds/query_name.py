"""The name of a feed that is a query: ``postgresql://HOST/DATABASE?query=SELECT …``."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

import xxhash

from silkline.core.url import mask_passwords
from silkline.errors import ConfigError
from silkline.frontier.transport.redis_url import without_password

QUERY = ("postgresql://", "postgres://")
LONGEST_SHOWN = 150
_QUERY = re.compile(r"[?&]query=", re.IGNORECASE)
_UNCLEAR = re.compile(r"^[a-z]+://[^?]*[/@][^?]*@|%(?![0-9a-f]{2})", re.IGNORECASE)
"""An address whose user or password has characters that separate its parts: errors of the driver would show them."""


class QueryName(NamedTuple):
    """What the name of a feed says."""

    url: str
    """The address of the server, with its password."""
    query: str
    public: str
    """The name without the password."""


def read_query_name(feed: str) -> QueryName:
    """Return what ``postgresql://…?query=…`` says. The query is all that follows, also ``&`` and ``+``."""
    found = _QUERY.search(feed)
    query = _decoded(feed[found.end() :].strip()).rstrip(";") if found else ""
    if not found or not query:
        raise ConfigError(
            f"{without_password(feed)[:200]!r}: a feed of a database is postgresql://USER@HOST/DATABASE?query=SELECT …"
        )
    url = feed[: found.start()]
    if _UNCLEAR.search(url):
        raise ConfigError(
            f"{without_password(url)}: in a user or password, write @ as %40, / as %2F, ? as %3F, # as %23 and % as %25"
        )
    shown = (
        query
        if len(query) <= LONGEST_SHOWN
        else f"{query[:LONGEST_SHOWN]}… {xxhash.xxh3_64_hexdigest(query.encode())[:8]}"
    )
    return QueryName(url, query, f"{without_password(url)}{found[0]}{' '.join(shown.split())}")


def _decoded(query: str) -> str:
    """Return a query that may have %20 for its spaces. In one with spaces, % is a part of it, as in ``LIKE '%de%'``."""
    return query if any(letter.isspace() for letter in query) else unquote(query).strip()


def public_name(feed: str) -> str:
    """Return the name of any feed as it may be shown: without a password."""
    return read_query_name(feed).public if feed.startswith(QUERY) else mask_passwords(feed)


def has_secret(feed: str) -> bool:
    """Return whether the name of a feed contains a password."""
    return feed.startswith(QUERY) and without_password(url := read_query_name(feed).url) != url
