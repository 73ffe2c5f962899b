"""Politeness: how fast one host is crawled. Budget: how many pages one crawl may fetch."""

from __future__ import annotations

import msgspec

from silkline.errors import ConfigError

MAX_DELAY = 86_400.0
MAX_CONCURRENCY = 1_000_000


class Politeness(msgspec.Struct, frozen=True, kw_only=True):
    """The rate limits of each host, unless the host has its own.

    At least *delay* seconds pass between two starts, at most *concurrency* requests are in progress, and after a pause *burst*
    requests may start at once. All three limits apply to all workers together.
    """

    delay: float = 1.0
    concurrency: int = 1
    burst: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.delay, int | float) or not 0 <= self.delay <= MAX_DELAY:
            raise ConfigError(f"delay must be from 0 to {MAX_DELAY:.0f} seconds, got {self.delay!r}")
        for name in ("concurrency", "burst"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= MAX_CONCURRENCY:
                raise ConfigError(f"{name} must be an integer from 1 to {MAX_CONCURRENCY}, got {value!r}")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that no number of workers can exceed; None means no limit.

    At most *pages* pages of the crawl and *pages_per_host* of each host complete, and links deeper than *depth* are refused (0: start
    URLs only). A page counts when its request completes. Leased requests are reserved, so the budget is never exceeded.
    """

    pages: int | None = None
    pages_per_host: int | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("pages", 1), ("pages_per_host", 1), ("depth", 0)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise ConfigError(f"budget {name} must be an integer of at least {least}, got {value!r}")
