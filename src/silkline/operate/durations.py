"""Times as people write them."""

from __future__ import annotations

import re

from silkline.core.errors import ConfigError

LONGEST = 100 * 365 * 86_400.0
"""Seconds; servers count time in numbers that end somewhere."""
_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def seconds(name: str, text: str | None) -> float | None:
    """A time as people write it: 90, 90s, 15m, 2h, 3d."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text.strip().lower())
    if not found or found[2] not in _UNITS:
        raise ConfigError(f"{name} is a time such as 90s, 15m, 2h or 3d, got {text!r}")
    value = float(found[1]) * _UNITS[found[2]]
    if value > LONGEST:
        raise ConfigError(f"{name} is at most a hundred years, got {text[:40]!r}")
    return value
