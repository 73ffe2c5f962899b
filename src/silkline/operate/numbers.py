"""Numbers as people write and read them."""

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


def plural(count: int, noun: str) -> str:
    """1 dead letter, 2 dead letters, 2 crashes."""
    ending = "" if count == 1 else "es" if noun.endswith("sh") else "s"
    return f"{count:,} {noun}{ending}"


def as_memory(size: float) -> str:
    """Memory: 12 bytes, 1.5 KiB, 3.0 GiB."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
