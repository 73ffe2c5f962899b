"""Shop: a ready-made site that knows exactly what it serves."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from silkline.core.errors import ConfigError
from silkline.testing.site.answers import Answer, Fixed, Route, prepare, redirect
from silkline.testing.site.visits import Visit

PER_LISTING = 20
KEPT = 6_000
"""Pages of each kind that are kept ready; more are made anew, so that a shop of a million pages takes no more memory."""
ROBOTS = "User-agent: *\nDisallow: /cart\n"

Item = dict[str, Any]


class Shop(msgspec.Struct, frozen=True, kw_only=True):
    """A shop of *pages* pages: listings of twenty products each, linked by "next", and a page for every product.

    ::

        shop = Shop(pages=2000)
        async with LocalSite(shop) as site:
            ...                                      # crawl site.url
        assert stored == shop.items

    With *trouble* it behaves as shops do: some products are slow, some answer 429 (with and without Retry-After) or 500
    before they answer, some are linked by old addresses that redirect, and a calendar goes on for ever. `Shop.trouble_of`
    tells which. Nothing is lost for it: a patient crawl finds every item. The robots.txt forbids ``/cart``.

    Every page has *links* links to other pages of the shop, and about *page_bytes* bytes if it would be smaller.
    """

    pages: int = 2000
    trouble: bool = True
    links: int = 32
    page_bytes: int = 0
    slow: float = 0.3
    """How long a slow page takes, in seconds."""

    def __post_init__(self) -> None:
        if self.pages < 2 or self.links < PER_LISTING + 1:
            raise ConfigError(f"a shop needs at least 2 pages and {PER_LISTING + 1} links on each")

    # ── what it serves ──

    @property
    def listings(self) -> int:
        """How many of the pages are listings."""
        return -(-self.pages // (PER_LISTING + 1))

    @property
    def products(self) -> int:
        """How many of the pages are products, and so how many items there are."""
        return self.pages - self.listings

    @property
    def items(self) -> list[Item]:
        """Every item, in the order of the product numbers."""
        return [self.item(number) for number in range(self.products)]

    @staticmethod
    def item(number: int) -> Item:
        """What the page of product *number* shows."""
        pence = int.from_bytes(hashlib.blake2b(str(number).encode(), digest_size=4).digest(), "big") % 10_000 + 1
        return {"sku": f"SKU-{number:06}", "title": f"Product {number}", "price": f"{pence // 100}.{pence % 100:02}"}

    def paths(self) -> Iterator[str]:
        """The path of every page, listings first; where old addresses lead is here, they are not."""
        yield "/"
        yield from (f"/listing/{number}" for number in range(1, self.listings))
        yield from (f"/product/{number}" for number in range(self.products))

    def trouble_of(self, number: int) -> str:
        """What is the matter with product *number*: slow, busy, busy-until, broken, moved, or nothing ("")."""
        if not self.trouble:
            return ""
        return {7: "slow", 13: "busy", 19: "busy-until", 29: "broken", 31: "moved", 37: "moved"}.get(number % 40, "")

    # ── how it serves it ──

    def routes(self) -> dict[str, Route]:
        """For `LocalSite`; what heals with time is ill again."""
        listing, product = functools.lru_cache(KEPT)(self._listing), functools.lru_cache(KEPT)(self._product)
        routes: dict[str, Route] = {
            "/": lambda _: listing(0),
            "/listing/*": self._numbered(self.listings, listing),
            "/product/*": self._ailing(self._numbered(self.products, product)),
            "/robots.txt": Answer(ROBOTS, headers={"Content-Type": "text/plain"}),
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
        """The product pages with their troubles."""
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
            return Answer("busy", status=429, headers={"Retry-After": "1"} if trouble == "busy-until" else {})

        return answer

    def _listing(self, number: int) -> Answer:
        first = number * PER_LISTING
        shown = range(first, min(first + PER_LISTING, self.products))
        rows = [f'<li><a class="product" href="{self._link(n)}">Product {n}</a></li>' for n in shown]
        if number + 1 < self.listings:
            rows.append(f'<li><a class="next" href="/listing/{number + 1}">next</a></li>')
        if self.trouble:
            rows.append('<li><a class="calendar" href="/calendar/0">events</a></li>')
        rows += self._more(first, self.links - len(rows))
        return self._padded(f"<title>Listing {number}</title><h1>Listing {number}</h1><ul>{''.join(rows)}</ul>")

    def _product(self, number: int) -> Answer:
        item = self.item(number)
        return self._padded(
            f"<title>{item['title']}</title><h1>{item['title']}</h1><p class=sku>{item['sku']}</p>"
            f"<p class=price>{item['price']}</p><ul>{''.join(self._around(number))}</ul>"
        )

    def _around(self, number: int) -> list[str]:
        """The way back to the product's listing, unless that is where everybody begins, and links to others."""
        listing = number // PER_LISTING
        back = [f'<li><a class="back" href="/listing/{listing}">back</a></li>'] if listing else []
        return back + self._more(number, self.links - len(back))

    def _more(self, start: int, count: int) -> list[str]:
        """Links to other products, spread over the shop."""
        step = self.products // 7 + 1
        numbers = [(start + 1 + place * step) % self.products for place in range(count)]
        return [f'<li><a class="more" href="/product/{n}">Product {n}</a></li>' for n in numbers]

    def _padded(self, html: str) -> Answer:
        return prepare(html if len(html) >= self.page_bytes else html + _filler(self.page_bytes - len(html)))

    def _link(self, number: int) -> str:
        return f"/old/{number}" if self.trouble_of(number) == "moved" else f"/product/{number}"


def _calendar(visit: Visit) -> Fixed:
    """Every day has a day after it."""
    day = visit.path.rpartition("/")[2]
    if not day.isdecimal():
        return 404
    return f'<h1>Day {day}</h1><a href="/calendar/{int(day) + 1}">tomorrow</a> <a href="/calendar/{day}/week">week</a>'


def _later(fixed: Fixed, delay: float) -> Fixed:
    return Answer(fixed.body, delay=delay) if isinstance(fixed, Answer) else fixed


@functools.cache
def _words(size: int) -> str:
    words = "silk thread spider web line knot weave loom spool "
    return words * (size // len(words) + 1)


def _filler(size: int) -> str:
    return f"<p>{_words(1 << size.bit_length())[: max(0, size - 7)]}</p>"
