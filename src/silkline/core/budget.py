"""Budget: how much of the web one crawl may take."""

from __future__ import annotations

import msgspec

from silkline.core.errors import ConfigError


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that no number of workers can exceed; None means no limit.

    A page counts when its request completes; what is leased is reserved, so the last page is never taken twice.
    """

    pages: int | None = None
    pages_per_host: int | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("pages", 1), ("pages_per_host", 1), ("depth", 0)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise ConfigError(f"budget {name} must be an integer of at least {least}, got {value!r}")
