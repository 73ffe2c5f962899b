"""Numbers and times as people read them: the filters of the templates."""

from __future__ import annotations

from datetime import UTC, datetime

from silkline.frontier.sentences import clock_time, span
from silkline.operate.numbers import plural


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def compact(value: float | None) -> str:
    """Four characters or so: 940, 12.3k, 4.1M."""
    if value is None:
        return "–"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}" if value % 1 else f"{value:.0f}"


def size(value: float | None) -> str:
    """Bytes."""
    if value is None:
        return "–"
    for unit, step in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if abs(value) >= step:
            return f"{value / step:.3g} {unit}"
    return f"{value:.0f} B"


def traffic(value: float | None) -> str:
    """Bytes per second, by thousands, as networks count."""
    return "–" if value is None else f"{compact(value).replace('k', ' k').replace('M', ' M').replace('G', ' G')}B/s"


def percent(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0%}" if value < 0.0005 or value >= 0.1 else f"{value:.1%}"


def rate(value: float | None) -> str:
    return "–" if value is None else f"{compact(value)}/s"


def lasting(seconds: float | None) -> str:
    """A time; days too."""
    if seconds is None:
        return "–"
    return span(seconds) if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def ago(then: float, now: float) -> str:
    past = now - then
    return "just now" if past < 2 else f"{lasting(past)} ago"


def clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M")


def plain(text: str) -> str:
    """Text from outside: nothing in it turns the direction of reading around, or hides."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in str(text))


def plain_lines(text: str) -> str:
    """The same of many lines."""
    return "\n".join(plain(line.replace("\t", "    ")) for line in str(text).splitlines())


FILTERS = {
    "plain": plain,
    "plain_lines": plain_lines,
    "number": number,
    "compact": compact,
    "size": size,
    "percent": percent,
    "rate": rate,
    "lasting": lasting,
    "ago": ago,
    "moment": clock_time,
    "clock": clock,
    "plural": plural,
}
