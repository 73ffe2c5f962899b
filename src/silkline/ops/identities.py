"""Identities, besides its fingerprint, under which a crawl may have stored a URL.

Requests of Scrapy spiders have the identities that Scrapy gives them. Only Scrapy can compute these, so the plugin registers
a function that does; this module does not import the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from silkline.core.request import Request
from silkline.core.url import parse

IdentifyUrl = Callable[[str], Iterable[bytes]]

_registered: list[IdentifyUrl] = []


def register(identify: IdentifyUrl) -> None:
    """Add a function that returns further identities of a URL."""
    if identify not in _registered:
        _registered.append(identify)


def identities_of(url: str) -> tuple[bytes, ...]:
    """Return the identities that the registered functions give *url*. Raises `InvalidUrl` if it is not a URL."""
    parse(url)
    return tuple(dict.fromkeys(identity for identify in _registered for identity in identify(url)))


def requests_of(url: str) -> tuple[Request, ...]:
    """Return a request for each identity that a seen filter may hold for *url*."""
    return (Request(url), *(Request(url, identity=identity) for identity in identities_of(url)))
