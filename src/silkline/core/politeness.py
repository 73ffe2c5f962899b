"""Politeness: how gently one host is treated."""

from __future__ import annotations

import msgspec

from silkline.core.errors import ConfigError

MAX_DELAY = 86_400.0
MAX_CONCURRENCY = 1_000_000


class Politeness(msgspec.Struct, frozen=True, kw_only=True):
    """The pace of every host that has none of its own.

    *delay* seconds lie between two starts, at most *concurrency* requests are under way, and after
    a rest *burst* requests may start at once. All three hold for the whole fleet together.
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
