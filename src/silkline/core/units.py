"""Sizes and durations as text. Sizes have binary units everywhere (KiB, MiB, GiB)."""

from __future__ import annotations

import re

_NAMES = ("B", "KiB", "MiB", "GiB", "TiB")
_FACTORS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


def format_bytes(size: float) -> str:
    """Return *size* with the unit that fits it: 12 B, 1.5 KiB, 80 MiB."""
    step = 0
    while abs(size) >= 1024 and step < len(_NAMES) - 1:
        size /= 1024
        step += 1
    return f"{size:,.1f}".removesuffix(".0") + f" {_NAMES[step]}"


def parse_bytes(text: str) -> int | None:
    """Return the number of bytes in 512M, 2GiB or 1.5 g, where K is 1024 bytes; None if *text* is not a size."""
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * _FACTORS[match[2].lower()]) if match else None


def parse_duration(text: str) -> float | None:
    """Return the seconds in 90, 90s, 30m, 1.5h, 7d or 2w; None if *text* is not a duration."""
    match = _DURATION.fullmatch(text.strip().lower())
    return float(match[1]) * _SECONDS[match[2]] if match else None


def format_duration(seconds: float) -> str:
    """Return a duration with the largest unit that is not less than one: 45 s, 90 s, 12 min, 1.5 h, 7 d."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def format_latency(seconds: float | None) -> str:
    """Return a duration of milliseconds or seconds as text: <1 ms, 25 ms, 1.25 s; – for None."""
    if seconds is None:
        return "–"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 or not seconds else "<1 ms"
