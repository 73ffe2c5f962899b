"""By which names a crawl may know a URL: its own fingerprint, or those that a spider of Scrapy gave it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from silkline.core.request import Request
from silkline.core.url import parse


def names_of(url: str) -> tuple[Request, ...]:
    """A request for each of them, the usual one first. Only Scrapy can tell its own: where it is not installed, they are not known.

    The plugin is a ring further out, and takes its time to be imported: hence only when somebody asks.
    """
    parse(url)  # refuses what is none
    if find_spec("scrapy") is None:
        return (Request(url),)
    identities: tuple[bytes, ...] = import_module("silkline.scrapy.identities").identities_of(url)
    return (Request(url), *(Request(url, identity=identity) for identity in identities))
