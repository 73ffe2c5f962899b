"""Whole numbers as people write them."""

from __future__ import annotations

from silkline.core.errors import ConfigError

MOST_DIGITS = 9
"""More than anybody means; Python refuses to read some thousand, and does so with an error of its own."""


def whole(name: str, text: str, such_as: str = "a whole number") -> int:
    """A number without a sign; *name* and *such_as* are for the sentence that refuses others."""
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise ConfigError(f"{name} is {such_as}, got {_shortened(text)!r}")
    return int(text)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
