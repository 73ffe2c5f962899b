"""What callers write, checked and turned into what flows take."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any, TypedDict

from silkline.core.budget import Budget
from silkline.core.errors import ConfigError
from silkline.core.politeness import MAX_DELAY, Politeness
from silkline.core.request import Request, is_time
from silkline.frontier.filters import DeadFilter
from silkline.frontier.leasing import Terms
from silkline.frontier.settings import Order, SeenFilter

CLUSTER_SHARDS = 64


class Wishes(TypedDict, total=False):
    """Settings of a crawl. They are stored when it is created; later opens may leave them out, but not contradict."""

    politeness: Politeness
    budget: Budget
    seen: str
    order: Order
    capacity: int
    shards: int


class DeadWishes(TypedDict, total=False):
    """Which dead letters: all that are given must match. Ages are in seconds."""

    id: str
    host: str
    reason: str
    status: int
    older_than: float
    newer_than: float


class RetryWishes(TypedDict, total=False):
    """What is noted of a failed attempt, and whether its whole host waits or is slowed."""

    reason: str
    status: int | None
    block_host: bool
    slow_host: bool


class HostWishes(TypedDict, total=False):
    """A host's own pace. *block_until* is a unix time; *crawl_delay* is what robots.txt asks for."""

    delay: float | None
    concurrency: int | None
    burst: int | None
    block_until: float | None
    paused: bool
    crawl_delay: float | None


def embedded_in(url: str | None) -> str | None:
    """The directory of an embedded server's URL; None for any other."""
    if url is None:
        return ".silkline"
    if isinstance(url, str) and url.startswith("embedded:"):
        return url.removeprefix("embedded:").removeprefix("//") or ".silkline"
    return None


def crawl_defaults(*, cluster: bool) -> dict[str, Any]:
    """What a new crawl gets where its creator wishes nothing."""
    return {"shards": CLUSTER_SHARDS if cluster else 1, "seed": secrets.randbits(63)}


def read_wishes(wishes: Wishes) -> dict[str, Any]:
    unknown = set(wishes) - set(Wishes.__annotations__)
    if unknown:
        raise ConfigError(
            f"unknown setting {', '.join(sorted(unknown))}; known are {', '.join(Wishes.__annotations__)}"
        )
    settings: dict[str, Any] = {name: wish for name, wish in wishes.items() if wish is not None}
    if "seen" in settings:
        settings["seen"] = SeenFilter.parse(settings["seen"])
    for name, kind in (("politeness", Politeness), ("budget", Budget)):
        if name in settings and not isinstance(settings[name], kind):
            raise ConfigError(f"{name} must be a {kind.__name__}, got {settings[name]!r}")
    return settings


MOST_SLACK = 60.0


def lease_ms(seconds: float) -> int:
    if not isinstance(seconds, int | float) or not 0.001 <= seconds <= 86_400:
        raise ConfigError(f"a lease lasts from 0.001 to 86400 seconds, got {seconds!r}")
    return round(seconds * 1000)


def milliseconds(name: str, seconds: float, *, least: float = 0.001) -> int:
    """Of some time up to a month."""
    if not isinstance(seconds, int | float) or not least <= seconds <= 2_678_400:
        raise ConfigError(f"{name} must be from {least:g} to 2678400 seconds, got {seconds!r}")
    return round(seconds * 1000)


def claim_terms(n: int, wait: float, lease_ms: int, slack: float) -> Terms:
    if type(n) is not int or n < 1:
        raise ConfigError(f"claim at least 1 request, got {n!r}")
    if not isinstance(wait, int | float) or not wait >= 0:
        raise ConfigError(f"wait must be at least 0 seconds, got {wait!r}")
    if not isinstance(slack, int | float) or not 0 <= slack <= MOST_SLACK:
        raise ConfigError(f"slack is from 0 to {MOST_SLACK:g} seconds, got {slack!r}")
    return Terms(lease_ms, round(slack * 1000))


def as_batch(requests: Iterable[str | Request] | str | Request) -> list[Any]:
    return [requests] if isinstance(requests, str | Request) else list(requests)


def dead_filter(which: DeadWishes, now: float) -> DeadFilter:
    unknown = set(which) - set(DeadWishes.__annotations__)
    if unknown or which.get("host") == "":  # or a slip of the pen would mean all of them
        raise ConfigError(f"dead letters are chosen by {', '.join(DeadWishes.__annotations__)}; got {dict(which)!r}")
    older, newer = which.get("older_than"), which.get("newer_than")
    return DeadFilter(
        id=which.get("id"),
        host=which.get("host"),
        reason=which.get("reason"),
        status=which.get("status"),
        before=None if older is None else now - older,
        after=None if newer is None else now - newer,
    )


def policy_words(pace: HostWishes) -> list[str | int]:
    """See policy.lua: delay, concurrency, burst, blocked until, paused, crawl delay."""
    unknown = set(pace) - set(HostWishes.__annotations__)
    if unknown:
        raise ConfigError(f"unknown host setting {', '.join(sorted(unknown))}")
    wished = {
        name: value for name, value in pace.items() if name in ("delay", "concurrency", "burst") and value is not None
    }
    Politeness(**wished)  # type: ignore[arg-type]  # refuses nonsense
    delay, asked, until = pace.get("delay"), pace.get("crawl_delay"), pace.get("block_until")
    if asked is not None and (not isinstance(asked, int | float) or not 0 <= asked <= MAX_DELAY):
        raise ConfigError(f"crawl_delay must be from 0 to {MAX_DELAY:.0f} seconds, got {asked!r}")
    if until is not None and not is_time(until):
        raise ConfigError(f"block_until must be a unix time in seconds, got {until!r}")
    return [
        _word(pace, "delay", None if delay is None else round(delay * 1000)),
        _word(pace, "concurrency", pace.get("concurrency")),
        _word(pace, "burst", pace.get("burst")),
        _word(pace, "block_until", None if until is None else round(until * 1000)),
        _word(pace, "paused", 1 if pace.get("paused") else None),
        _word(pace, "crawl_delay", None if asked is None else round(asked * 1000)),
    ]


def _word(pace: HostWishes, name: str, value: int | None) -> str | int:
    if name not in pace:
        return ""
    return "-" if value is None else value
