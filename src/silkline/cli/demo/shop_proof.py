"""Compare what the shop of the demo served with what the workers stored."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from silkline.testing.site import Shop, Visits

KINDS = {
    "": "ordinary products",
    "slow": "slow",
    "busy": "429 at first",
    "busy-until": "429 with Retry-After at first",
    "broken": "500 twice",
    "moved": "behind a redirect",
}
StoredItem = dict[str, str]


class KindCounts(msgspec.Struct, frozen=True):
    """Counts of one kind of product."""

    kind: str
    served: int
    stored: int
    missing: int
    twice: int


class ShopProof(msgspec.Struct, kw_only=True):
    """The result of the comparison; `sound` if the stored items equal the served ones."""

    rows: list[KindCounts]
    missing: list[str]
    twice: list[str]
    wrong: list[str]
    """Stored with a wrong title or price."""
    strange: list[str]
    """Stored, but not served by the shop."""
    requests: int
    """Requests that the web server received."""
    fetched_again: int
    """Product pages that were fetched more often than necessary."""
    trap_pages: int
    smallest_gap: float
    """Shortest time between two requests to one host, as seen by the web server."""
    greatest_concurrency: int
    finished: bool
    dead: int
    killed: bool

    @property
    def served(self) -> int:
        return sum(row.served for row in self.rows)

    @property
    def stored(self) -> int:
        return sum(row.stored for row in self.rows)

    @property
    def sound(self) -> bool:
        faults = (self.missing, self.twice, self.wrong, self.strange, self.dead)
        return self.finished and self.killed and self.served == self.stored and not any(faults)


def prove(
    shop: Shop, stored: Sequence[StoredItem], visits: Visits, *, finished: bool, dead: int, killed: bool
) -> ShopProof:
    """Compare *stored* with what *shop* served, and evaluate the requests that its web server received."""
    served = {item["sku"]: item for item in shop.items}
    counts = Counter(item["sku"] for item in stored)
    twice = {sku for sku, count in counts.items() if count > 1}
    return ShopProof(
        rows=_rows(shop, counts),
        missing=sorted(served.keys() - counts.keys()),
        twice=sorted(twice),
        wrong=sorted({item["sku"] for item in stored if item["sku"] in served and item != served[item["sku"]]}),
        strange=sorted(counts.keys() - served.keys()),
        requests=len(visits),
        fetched_again=_fetched_again(shop, visits),
        trap_pages=sum(visit.path.startswith("/calendar/") for visit in visits),
        smallest_gap=visits.smallest_gap(),
        greatest_concurrency=visits.greatest_concurrency(),
        finished=finished,
        dead=dead,
        killed=killed,
    )


def read_items(file: Path) -> list[StoredItem]:
    """Read the items from the SQLite file."""
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute("SELECT sku, title, price FROM items").fetchall()
    return [dict(zip(("sku", "title", "price"), map(str, row), strict=True)) for row in rows]


def _rows(shop: Shop, counts: Counter[str]) -> list[KindCounts]:
    rows = []
    for trouble, kind in KINDS.items():
        skus = [shop.item(number)["sku"] for number in range(shop.products) if shop.trouble_of(number) == trouble]
        stored = [counts[sku] for sku in skus]
        rows.append(
            KindCounts(kind, len(skus), sum(map(bool, stored)), stored.count(0), sum(one > 1 for one in stored))
        )
    return rows


def _fetched_again(shop: Shop, visits: Visits) -> int:
    """Count product pages with more requests than their 429 and 500 responses required."""
    needed = {"busy": 2, "busy-until": 2, "broken": 3}
    tries = Counter(visit.path for visit in visits if visit.path.startswith("/product/"))
    return sum(count > needed.get(shop.trouble_of(int(path.rpartition("/")[2])), 1) for path, count in tries.items())
