"""Template filters that format numbers and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from markupsafe import Markup

from silkline.core.units import format_bytes, format_latency
from silkline.core.url import mask_passwords
from silkline.frontier.admin_verbs.explain_text import clock_time, span
from silkline.ops.parsing import plural


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def compact(value: float | None) -> str:
    """Format a number in about four characters: 940, 12.3k, 4.1M."""
    if value is None:
        return "–"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}" if value % 1 else f"{value:.0f}"


def size(value: float | None) -> str:
    return "–" if value is None else format_bytes(value)


def traffic(value: float | None) -> str:
    return "–" if value is None else f"{format_bytes(value)}/s"


def percent(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0%}" if value < 0.0005 or value >= 0.1 else f"{value:.1%}"


def rate(value: float | None) -> str:
    return "–" if value is None else f"{compact(value)}/s"


def lasting(seconds: float | None) -> str:
    """Format a duration, up to days."""
    if seconds is None:
        return "–"
    return span(seconds) if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def ago(then: float, now: float) -> str:
    past = now - then
    return "just now" if past < 2 else f"{lasting(past)} ago"


def clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M")


def iso(seconds: float) -> str:
    """Format a unix time for the datetime attribute."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def plain(text: str) -> str:
    """Replace unprintable characters, such as bidirectional controls, in untrusted text. Passwords in URLs are masked."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in mask_passwords(str(text)))


def breakable(name: str) -> Markup:
    """Let a long host name wrap after its dots and before its port."""
    return Markup("<wbr>").join(re.findall(r":[^:.]*|[^.:]*\.+|[^.:]+", name)) if name else Markup("")


def plain_lines(text: str) -> str:
    """Apply `plain` to each line of a text."""
    return "\n".join(plain(line.replace("\t", "    ")) for line in str(text).splitlines())


FILTERS = {
    "masked": mask_passwords,
    "plain": plain,
    "breakable": breakable,
    "plain_lines": plain_lines,
    "number": number,
    "compact": compact,
    "size": size,
    "percent": percent,
    "rate": rate,
    "lasting": lasting,
    "latency": format_latency,
    "ago": ago,
    "moment": clock_time,
    "clock": clock,
    "iso": iso,
    "plural": plural,
}
