"""Export requests and dead letters as rows: CSV for spreadsheets, JSON lines for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from silkline.frontier.admin_verbs.dead_letters import DeadLetter
from silkline.frontier.admin_verbs.requests import ListedRequest
from silkline.sinks.csv_file import safe_text, text_of

ExportFormat = Literal["csv", "jsonl"]
ExportRow = Mapping[str, Any]
PAGE = 1000
"""Requests or letters that are read at a time."""
TIMES = ("created", "due", "expires", "first", "last")
"""Fields with unix times; in CSV they are written as ISO 8601 in UTC."""
REQUEST_FIELDS = (
    "id", "url", "host", "state", "method", "priority", "depth", "handler", "attempts", "due", "expires", "reason", "status",
    "created",
)  # fmt: skip
LETTER_FIELDS = (
    "id", "url", "host", "reason", "status", "attempts", "crashes", "first", "last", "method", "priority", "depth", "handler",
    "created",
)  # fmt: skip
MEDIA_TYPES: dict[ExportFormat, str] = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


def request_row(one: ListedRequest) -> dict[str, Any]:
    """Return the fields of a request; reason and status are those of its last failed attempt."""
    request, last = one.request, one.history[-1] if one.history else None
    return {
        "id": one.id,
        "url": one.url,
        "host": one.host,
        "state": str(one.state),
        "method": request.method,
        "priority": request.priority,
        "depth": request.depth,
        "handler": request.handler or None,
        "attempts": one.attempts,
        "due": one.due,
        "expires": one.expires,
        "reason": last.reason if last else None,
        "status": last.status if last else None,
        "created": one.created,
    }


def letter_summary(letter: DeadLetter) -> dict[str, Any]:
    """Return where, when and why a request was buried."""
    return {
        "id": letter.id,
        "url": letter.url,
        "host": letter.host,
        "reason": letter.reason,
        "status": letter.status,
        "attempts": letter.attempts,
        "crashes": letter.crashes,
        "first": letter.first,
        "last": letter.last,
    }


def letter_row(letter: DeadLetter) -> dict[str, Any]:
    """Return the fields of a dead letter."""
    request = letter.request
    return letter_summary(letter) | {
        "method": request.method,
        "priority": request.priority,
        "depth": request.depth,
        "handler": request.handler or None,
        "created": letter.created,
    }


def heading(kind: ExportFormat, fields: Iterable[str]) -> bytes:
    """Return the first line of an export."""
    return text_of([tuple(fields)]) if kind == "csv" else b""


def lines(kind: ExportFormat, rows: Iterable[ExportRow], text: Callable[[str], str] = str) -> bytes:
    """Return rows as lines. *text* is applied to each string. In CSV, text that a spreadsheet would run as a formula is quoted."""
    if kind == "csv":
        return text_of([[safe_text(_cell(name, value, text)) for name, value in row.items()] for row in rows])
    shown = ({name: text(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows)
    return b"".join(json.dumps(row).encode() + b"\n" for row in shown)


def _cell(name: str, value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, float) and name in TIMES:
        return datetime.fromtimestamp(value, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return text(value) if isinstance(value, str) else value
