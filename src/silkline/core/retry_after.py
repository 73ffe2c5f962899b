"""Retry-After: when a site that is busy wants to be asked again."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER = 86_400.0
"""Seconds; who asks for more is visited again after a day."""

_LONGEST_HEADER = 64


def retry_after(header: str | None, now: float, most: float = MAX_RETRY_AFTER) -> float | None:
    """Seconds to wait, at most *most*, out of a Retry-After header; *now* is the unix time.

    The header holds seconds or an HTTP date. None when there is none, when it makes no sense, and when it says *at once*:
    from a site that has just complained, that is no answer. Then slow down instead.
    """
    text = (header or "").strip()
    if not text or len(text) > _LONGEST_HEADER or not text.isascii():
        return None
    seconds = float(text) if text.isdigit() else _until(text, now)
    return min(seconds, most) if seconds > 0 else None


def _until(date: str, now: float) -> float:
    try:
        time = parsedate_to_datetime(date)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
