"""Records to write."""

from __future__ import annotations

from silkline.sinks import record_of

PAGE = "https://books.example/1"


def record(number, **item):
    return record_of(f"page-{number}", PAGE, {"n": number, **item})
