"""The settings of a crawl as options: they create it, and must not contradict it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cyclopts import Group, Parameter

from silkline.core.budget import Budget
from silkline.core.errors import ConfigError, UnknownCrawl
from silkline.core.politeness import Politeness
from silkline.frontier.settings import Order, SeenFilter, Settings
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.wishes import Wishes

GROUP = Group(
    "Settings of a new crawl", help="Stored when the crawl is created; later they may be left out.", sort_key=9
)


@Parameter(name="*", group=GROUP)
@dataclass(frozen=True, kw_only=True)
class CrawlOptions:
    """Every field that is None is left to the crawl."""

    delay: float | None = None
    """Seconds between two starts on one host, for the whole fleet. [1]"""
    concurrency: int | None = None
    """Requests under way on one host at a time. [1]"""
    burst: int | None = None
    """Requests that may start at once on a rested host. [1]"""
    seen: str | None = None
    """The seen filter: exact, compact, or bloom:ERROR[,CAPACITY]. [exact]"""
    order: Order | None = None
    """Which request of a host comes first. [fifo]"""
    capacity: int | None = None
    """Requests that may wait before the crawl is full. [5,000,000]"""
    shards: int | None = None
    """Parts of the crawl that can live on different cluster nodes. [1; 64 on a cluster]"""
    max_pages: int | None = None
    """Pages of the whole crawl, never more. [no limit]"""
    max_pages_per_host: int | None = None
    """Pages of any one host, never more. [no limit]"""
    max_depth: int | None = None
    """Links between a start URL and a page. [no limit]"""

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}

    def wishes(self) -> Wishes:
        """As `SyncFrontier.open` takes them."""
        wishes = Wishes()
        pace = _renamed(self.given(), {"delay": "delay", "concurrency": "concurrency", "burst": "burst"})
        limits = _renamed(
            self.given(), {"max_pages": "pages", "max_pages_per_host": "pages_per_host", "max_depth": "depth"}
        )
        if pace:
            wishes["politeness"] = Politeness(**pace)
        if limits:
            wishes["budget"] = Budget(**limits)
        for name in ("seen", "order", "capacity", "shards"):
            if name in self.given():
                wishes[name] = self.given()[name]
        return wishes

    def conflicts(self, stored: Settings) -> list[str]:
        """Options that say something else than the crawl does."""
        pace, limits = stored.politeness, stored.budget
        holds = {
            **{name: getattr(pace, name) for name in ("delay", "concurrency", "burst")},
            **{name: getattr(stored, name) for name in ("seen", "order", "capacity", "shards")},
            "max_pages": limits.pages,
            "max_pages_per_host": limits.pages_per_host,
            "max_depth": limits.depth,
        }
        wished = {name: SeenFilter.parse(value) if name == "seen" else value for name, value in self.given().items()}
        return [
            f"--{name.replace('_', '-')} is {_word(holds[name])}, not {_word(wish)}"
            for name, wish in wished.items()
            if holds[name] != wish
        ]


def open_or_create(url: str, crawl: str, options: CrawlOptions) -> tuple[SyncFrontier, bool]:
    """The crawl, and whether it is new. Of an existing one only the options that are given are compared."""
    wishes = options.wishes()
    try:
        frontier = SyncFrontier.open(url, crawl=crawl, create=False)
    except UnknownCrawl:
        return SyncFrontier.open(url, crawl=crawl, **wishes), True
    conflicts = options.conflicts(frontier.plan.settings)
    if conflicts:
        frontier.close()
        raise ConfigError(
            f"the crawl {crawl!r} was created with other settings: {'; '.join(conflicts)}. "
            "Leave the option out, or name another crawl"
        )
    return frontier, False


def describe_filter(seen: SeenFilter) -> str:
    """As the user would write it."""
    return f"bloom:{seen.error:g},{seen.capacity}" if seen.kind == "bloom" else seen.kind


def _word(value: Any) -> str:
    if isinstance(value, SeenFilter):
        return describe_filter(value)
    return "unlimited" if value is None else str(value)


def _renamed(given: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {new: given[old] for old, new in names.items() if old in given}
