"""The settings of a crawl as options. They must agree with the settings of an existing crawl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cyclopts import Group, Parameter

from silkline.core.politeness import Budget, Politeness
from silkline.errors import SettingsConflict, UnknownCrawl
from silkline.frontier.arguments import CrawlArguments
from silkline.frontier.store.settings import Durability, QueueOrder, SeenFilter, Settings
from silkline.frontier.sync import SyncFrontier

GROUP = Group("Settings of a new crawl", help="Stored when the crawl is created; you may omit them later.", sort_key=9)


@Parameter(name="*", group=GROUP)
@dataclass(frozen=True, kw_only=True)
class CrawlOptions:
    """Settings given on the command line. None means that the option was not given."""

    delay: float | None = None
    """Seconds between two requests to one host, across all workers. [default: 1]"""
    concurrency: int | None = None
    """Requests in progress on one host. [default: 1]"""
    burst: int | None = None
    """Requests that may start at once on an idle host. [default: 1]"""
    seen: str | None = None
    """The seen filter: exact, compact, or bloom:ERROR[,CAPACITY]. [default: exact]"""
    order: QueueOrder | None = None
    """Order of the requests of a host. [default: fifo]"""
    capacity: int | None = None
    """Maximum number of queued requests. [default: 5,000,000]"""
    dead_limit: int | None = None
    """Maximum number of dead letters, beyond which the oldest are dropped; 0 for no limit. [default: 250,000]"""
    durability: Durability | None = None
    """What a call waits for: nothing beyond the server's own setting (everysec), the disk (always), or a replica (replicated).
    [default: everysec]"""
    shards: int | None = None
    """Parts of the crawl that can be on different cluster nodes. [default: 1; 64 on a cluster]"""
    max_pages: int | None = None
    """Maximum number of pages of the crawl. [default: no limit]"""
    max_pages_per_host: int | None = None
    """Maximum number of pages of one host. [default: no limit]"""
    max_depth: int | None = None
    """Maximum number of links between a start URL and a page. [default: no limit]"""

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}

    def arguments(self) -> CrawlArguments:
        """Return the settings as arguments of `SyncFrontier.open`."""
        arguments = CrawlArguments()
        pace = _renamed(self.given(), {"delay": "delay", "concurrency": "concurrency", "burst": "burst"})
        limits = _renamed(
            self.given(), {"max_pages": "pages", "max_pages_per_host": "pages_per_host", "max_depth": "depth"}
        )
        if pace:
            arguments["politeness"] = Politeness(**pace)
        if limits:
            arguments["budget"] = Budget(**limits)
        for name in ("seen", "order", "capacity", "dead_limit", "durability", "shards"):
            if name in self.given():
                arguments[name] = self.given()[name]
        return arguments

    def conflicts(self, stored: Settings) -> list[str]:
        """Describe the options that differ from the *stored* settings."""
        pace, limits = stored.politeness, stored.budget
        holds = {
            **{name: getattr(pace, name) for name in ("delay", "concurrency", "burst")},
            **{
                name: getattr(stored, name)
                for name in ("seen", "order", "capacity", "dead_limit", "durability", "shards")
            },
            "max_pages": limits.pages,
            "max_pages_per_host": limits.pages_per_host,
            "max_depth": limits.depth,
        }
        wanted = {name: SeenFilter.parse(value) if name == "seen" else value for name, value in self.given().items()}
        return [
            f"--{name.replace('_', '-')} is {_word(holds[name])}, not {_word(value)}"
            for name, value in wanted.items()
            if holds[name] != value
        ]


def open_or_create(url: str, crawl: str, options: CrawlOptions) -> tuple[SyncFrontier, bool]:
    """Open or create a crawl; return it and whether it is new."""
    frontier = open_existing(url, crawl, options)
    return (frontier, False) if frontier else (SyncFrontier.open(url, crawl=crawl, **options.arguments()), True)


def open_existing(url: str, crawl: str, options: CrawlOptions) -> SyncFrontier | None:
    """Open a crawl; None if it does not exist. Only given options are compared with its settings."""
    options.arguments()  # raises if one is wrong
    try:
        frontier = SyncFrontier.open(url, crawl=crawl, create=False)
    except UnknownCrawl:
        return None
    conflicts = options.conflicts(frontier.layout.settings)
    if conflicts:
        frontier.close()
        raise SettingsConflict(
            f"the crawl {crawl!r} was created with other settings: {'; '.join(conflicts)}. "
            "Omit the option, or use another crawl"
        )
    return frontier


def describe_filter(seen: SeenFilter) -> str:
    """Return the seen filter as it is written on the command line."""
    return str(seen)


def _word(value: Any) -> str:
    if isinstance(value, SeenFilter):
        return describe_filter(value)
    return "unlimited" if value is None else str(value)


def _renamed(given: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {new: given[old] for old, new in names.items() if old in given}
