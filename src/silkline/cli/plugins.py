"""The Scrapy plugin, loaded when a command first needs it: the import is slow, and Scrapy is optional."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from silkline.ops import identities


def register_scrapy() -> None:
    """Let `explain` and `forget` find requests of Scrapy spiders, if Scrapy is installed."""
    if find_spec("scrapy") is not None:
        identities.register(_scrapy_identities)


def _scrapy_identities(url: str) -> tuple[bytes, ...]:
    found: tuple[bytes, ...] = import_module("silkline.scrapy.dupefilter").identities_of(url)
    return found
