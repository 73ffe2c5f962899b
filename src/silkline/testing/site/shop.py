"""Shop: a ready-made site with known content."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from silkline.errors import ConfigError
from silkline.testing.site.responses import Fixed, Route, SiteResponse, prepare, redirect
from silkline.testing.site.visits import Visit

PER_LISTING = 20
KEPT = 6_000
"""Number of cached pages of each kind; others are generated again, so that memory does not grow with the shop."""
ROBOTS = "User-agent: *\nDisallow: /cart\n"

ShopItem = dict[str, Any]


class Shop(msgspec.Struct, frozen=True, kw_only=True):
    """A shop of *pages* pages: listings of twenty products each, linked by "next", and a page for every product.

    ::

        shop = Shop(pages=2000)
        async with LocalSite(shop) as site:
            ...                                      # crawl site.url
        assert stored == shop.items

    With *trouble*, some products are slow (*slow* seconds), some reply 429 (with and without Retry-After) or 500 at first, some are linked
    by old URLs that redirect, and there is an endless calendar. `Shop.trouble_of` returns the kind of a product. A crawl
    that retries finds every item. The robots.txt disallows ``/cart``.

    Every page has *links* links to other pages of the shop, and at least about *page_bytes* bytes.
    """

    pages: int = 2000
    trouble: bool = True
    links: int = 32
    page_bytes: int = 0
    slow: float = 0.3

    def __post_init__(self) -> None:
        if self.pages < 2 or self.links < PER_LISTING + 1:
            raise ConfigError(f"a shop needs at least 2 pages, with {PER_LISTING + 1} links each")

    # ── content ──

    @property
    def listings(self) -> int:
        """Number of listing pages."""
        return -(-self.pages // (PER_LISTING + 1))

    @property
    def products(self) -> int:
        """Number of product pages, which is the number of items."""
        return self.pages - self.listings

    @property
    def items(self) -> list[ShopItem]:
        """All items, in order of product number."""
        return [self.item(number) for number in range(self.products)]

    @staticmethod
    def item(number: int) -> ShopItem:
        """Return the item on the page of product *number*."""
        pence = int.from_bytes(hashlib.blake2b(str(number).encode(), digest_size=4).digest(), "big") % 10_000 + 1
        return {"sku": f"SKU-{number:06}", "title": f"Product {number}", "price": f"{pence // 100}.{pence % 100:02}"}

    def paths(self) -> Iterator[str]:
        """Yield the path of every page, listings first, without old URLs that redirect."""
        yield "/"
        yield from (f"/listing/{number}" for number in range(1, self.listings))
        yield from (f"/product/{number}" for number in range(self.products))

    def trouble_of(self, number: int) -> str:
        """Return the kind of trouble of product *number*: slow, busy, busy-until, broken, moved, or "" for none."""
        if not self.trouble:
            return ""
        return {7: "slow", 13: "busy", 19: "busy-until", 29: "broken", 31: "moved", 37: "moved"}.get(number % 40, "")

    # ── routes ──

    def routes(self) -> dict[str, Route]:
        """Return new routes for `LocalSite`; temporary errors start over."""
        listing, product = functools.lru_cache(KEPT)(self._listing), functools.lru_cache(KEPT)(self._product)
        routes: dict[str, Route] = {
            "/": lambda _: listing(0),
            "/listing/*": self._numbered(self.listings, listing),
            "/product/*": self._ailing(self._numbered(self.products, product)),
            "/robots.txt": SiteResponse(ROBOTS, headers={"Content-Type": "text/plain"}),
            "/cart": "<h1>Your cart</h1>",
        }
        if self.trouble:
            routes["/old/*"] = self._numbered(self.products, lambda number: redirect(f"/product/{number}", 301))
            routes["/calendar/*"] = _calendar
        return routes

    @staticmethod
    def _numbered(count: int, make: Callable[[int], Fixed]) -> Callable[[Visit], Fixed]:
        def answer(visit: Visit) -> Fixed:
            number = visit.path.rpartition("/")[2]
            return make(int(number)) if number.isdecimal() and int(number) < count else 404

        return answer

    def _ailing(self, well: Callable[[Visit], Fixed]) -> Callable[[Visit], Fixed]:
        """Add the troubles to the product pages."""
        tries: Counter[str] = Counter()

        def answer(visit: Visit) -> Fixed:
            number = visit.path.rpartition("/")[2]
            trouble = self.trouble_of(int(number)) if number.isdecimal() else ""
            if trouble in ("", "moved"):
                return well(visit)
            tries[number] += 1
            if trouble == "slow":
                return _later(well(visit), self.slow)
            if trouble == "broken":
                return 500 if tries[number] <= 2 else well(visit)
            if tries[number] > 1:
                return well(visit)
            return SiteResponse("busy", status=429, headers={"Retry-After": "1"} if trouble == "busy-until" else {})

        return answer

    def _listing(self, number: int) -> SiteResponse:
        first = number * PER_LISTING
        shown = range(first, min(first + PER_LISTING, self.products))
        rows = [f'<li><a class="product" href="{self._link(n)}">Product {n}</a></li>' for n in shown]
        if number + 1 < self.listings:
            rows.append(f'<li><a class="next" href="/listing/{number + 1}">next</a></li>')
        if self.trouble:
            rows.append('<li><a class="calendar" href="/calendar/0">events</a></li>')
        rows += self._more(first, self.links - len(rows))
        return self._padded(f"<title>Listing {number}</title><h1>Listing {number}</h1><ul>{''.join(rows)}</ul>")

    def _product(self, number: int) -> SiteResponse:
        item = self.item(number)
        return self._padded(
            f"<title>{item['title']}</title><h1>{item['title']}</h1><p class=sku>{item['sku']}</p>"
            f"<p class=price>{item['price']}</p><ul>{''.join(self._around(number))}</ul>"
        )

    def _around(self, number: int) -> list[str]:
        """Return the link back to the product's listing, unless it is the start page, and links to other products."""
        listing = number // PER_LISTING
        back = [f'<li><a class="back" href="/listing/{listing}">back</a></li>'] if listing else []
        return back + self._more(number, self.links - len(back))

    def _more(self, start: int, count: int) -> list[str]:
        """Return links to other products, spread over the shop."""
        step = self.products // 7 + 1
        numbers = [(start + 1 + place * step) % self.products for place in range(count)]
        return [f'<li><a class="more" href="/product/{n}">Product {n}</a></li>' for n in numbers]

    def _padded(self, html: str) -> SiteResponse:
        return prepare(html if len(html) >= self.page_bytes else html + _filler(self.page_bytes - len(html)))

    def _link(self, number: int) -> str:
        return f"/old/{number}" if self.trouble_of(number) == "moved" else f"/product/{number}"


def _calendar(visit: Visit) -> Fixed:
    """Return a page of the endless calendar, with a link to the next day."""
    day = visit.path.rpartition("/")[2]
    if not day.isdecimal():
        return 404
    return f'<h1>Day {day}</h1><a href="/calendar/{int(day) + 1}">tomorrow</a> <a href="/calendar/{day}/week">week</a>'


def _later(fixed: Fixed, delay: float) -> Fixed:
    return SiteResponse(fixed.body, delay=delay) if isinstance(fixed, SiteResponse) else fixed


@functools.cache
def _words(size: int) -> str:
    words = "silk thread spider web line knot weave loom spool "
    return words * (size // len(words) + 1)


def _filler(size: int) -> str:
    return f"<p>{_words(1 << size.bit_length())[: max(0, size - 7)]}</p>"
