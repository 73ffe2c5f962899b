"""Checks of arguments that several verbs take: the settings of a crawl, its server, and durations."""

from __future__ import annotations

import secrets
from typing import Any, TypedDict

from silkline.core.politeness import Budget, Politeness
from silkline.errors import ConfigError
from silkline.frontier.store.settings import DEFAULT_DEAD_LIMIT, Durability, QueueOrder, SeenFilter

CLUSTER_SHARDS = 64


class CrawlArguments(TypedDict, total=False):
    """Settings of a crawl. They are stored when it is created; later opens may leave them out, but not contradict.

    If the process that created the crawl has not named a politeness, the first one that does decides on it.
    """

    politeness: Politeness
    budget: Budget
    seen: str
    order: QueueOrder
    capacity: int
    host_share: float
    dead_limit: int
    durability: Durability
    shards: int


def embedded_in(url: str | None) -> str | None:
    """Return the directory of an ``embedded:DIR`` URL; None for other URLs."""
    if url is None:
        return ".silkline"
    if isinstance(url, str) and url.startswith("embedded:"):
        return url.removeprefix("embedded:").removeprefix("//") or ".silkline"
    return None


def crawl_defaults(given: dict[str, Any], *, cluster: bool) -> dict[str, Any]:
    """Return the default settings of a new crawl, besides those that are given."""
    return {
        "politeness_by_default": "politeness" not in given,
        "shards": CLUSTER_SHARDS if cluster else 1,
        "dead_limit": DEFAULT_DEAD_LIMIT,
        "seed": secrets.randbits(63),
    }


def read_crawl_arguments(given: CrawlArguments) -> dict[str, Any]:
    unknown = set(given) - set(CrawlArguments.__annotations__)
    if unknown:
        raise ConfigError(
            f"unknown setting {', '.join(sorted(unknown))}; known are {', '.join(CrawlArguments.__annotations__)}"
        )
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if "seen" in settings:
        settings["seen"] = SeenFilter.parse(settings["seen"])
    for name, kind in (("politeness", Politeness), ("budget", Budget)):
        if name in settings and not isinstance(settings[name], kind):
            raise ConfigError(f"{name} must be a {kind.__name__}, got {settings[name]!r}")
    return settings


def milliseconds(name: str, seconds: float, *, least: float = 0.001) -> int:
    """Return a time of up to a month in milliseconds."""
    if not isinstance(seconds, int | float) or not least <= seconds <= 2_678_400:
        raise ConfigError(f"{name} must be from {least:g} to 2678400 seconds, got {seconds!r}")
    return round(seconds * 1000)
