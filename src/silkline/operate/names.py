"""By which identities a crawl may know a URL beside its own fingerprint: those that a spider of Scrapy gave it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from silkline.core.request import Request
from silkline.core.url import parse


def identities_of(url: str) -> tuple[bytes, ...]:
    """Only Scrapy can tell them: where it is not installed, they are not known.

    The plugin is a ring further out, and takes its time to be imported: hence only when somebody asks.
    """
    parse(url)  # refuses what is none
    if find_spec("scrapy") is None:
        return ()
    identities: tuple[bytes, ...] = import_module("silkline.scrapy.identities").identities_of(url)
    return identities


def names_of(url: str) -> tuple[Request, ...]:
    """A request for each name that a seen filter may have for it."""
    return (Request(url), *(Request(url, identity=identity) for identity in identities_of(url)))
