"""Hostile pages that are small to send and costly to read: HTML on which parsers take quadratic or cubic time, and links."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from silkline.testing.site.responses import Route


def costly_pages() -> dict[str, Route]:
    """Every one by its path. Each is made when it is first asked for."""
    return {path: _once(make) for path, make in _MAKERS.items()}


def regular_page(size: int) -> str:
    """An ordinary page of about *size* bytes: cards with a picture, a heading, a price and a button."""
    card = (
        '<div class="card" data-id="{0}"><a href="/item/{0}" title="Item {0}"><img src="/media/{0}.jpg" alt="Item {0}"></a>'
        '<h3><a href="/item/{0}">A light in the attic, number {0}</a></h3><p class="price">51.77</p>'
        '<p class="stock"><i class="icon-ok"></i> In stock, sent within two days</p></div>\n'
    )
    cards = "".join(card.format(number) for number in range(size // 290))
    return f"<!doctype html><title>Catalogue</title><main>{cards}</main>"


def _numbered(pattern: str, count: int) -> str:
    return "".join(pattern.format(number) for number in range(count))


def _links(count: int) -> str:
    return _numbered("<a href=/l/{}>", count)


def _long_links() -> str:
    """Links of 640 segments, all different: a check that compares each segment with each takes hours."""
    path = _numbered("{:x}/", 640)
    return "".join(f"<a href=/{number}/{path}>x</a>" for number in range(6_000))


_MAKERS: dict[str, Callable[[], str]] = {
    "/costly/nested": lambda: "<div>" * 100_000,
    "/costly/nested-closed": lambda: "<div></x>" * 100_000,
    "/costly/nested-table": lambda: "<div><table></div></table>" * 30_000,
    "/costly/lists": lambda: "<ul><li>" * 50_000,
    "/costly/svg": lambda: "<svg>" + "<g>" * 50_000 + "</x>" * 50_000,
    "/costly/attributes": lambda: "<a " + _numbered("x{} ", 40_000) + ">",
    "/costly/merged": lambda: _numbered("<html x{}>", 60_000),
    "/costly/formatting": lambda: "<div>" + _numbered("<b {}>", 3_000) + "</div>" + "<p>x" * 3_000,
    "/costly/formatting-open": lambda: _numbered("<p><b {}>x", 4_000),
    "/costly/formatting-attributes": lambda: "<div><b " + _numbered("{} ", 5_000) + "></div>" + "<p>x" * 5_000,
    "/costly/fonts": lambda: _numbered("<p><font size={}>x", 4_000),
    "/costly/million-links": lambda: _links(800_000),
    "/costly/long-links": _long_links,
    "/costly/large": lambda: regular_page(5_000_000),
}


def _once(make: Callable[[], str]) -> Route:
    kept = cache(make)
    return lambda _visit: kept()
