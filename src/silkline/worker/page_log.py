"""The page log: a line for each page that was fetched, retried or failed, on the logger ``silkline.pages``.

Levels are as in Scrapy, so that the log of a worker at its default level ``info`` does not grow with each page: pages that were
fetched, skipped, retried or given back are ``debug``, pages that failed for good are ``info``.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from silkline.core.lease import Lease
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Strike, Verdict
from silkline.fetch.fetcher import Response

log = logging.getLogger("silkline.pages")

LONGEST_REASON = 500
_LEVELS = {Bury: logging.INFO, Strike: logging.INFO}


class Transfer(msgspec.Struct, frozen=True):
    """What is known of a response after its page is gone."""

    status: int
    bytes: int
    seconds: float

    @classmethod
    def of(cls, response: Response) -> Transfer:
        return cls(response.status, len(response.body), response.elapsed)


def log_page(lease: Lease, verdict: Verdict, handler: str | None, transfer: Transfer | None = None) -> None:
    """Log how an attempt at a page ended; *handler* is the name of its handler."""
    level = _LEVELS.get(type(verdict), logging.DEBUG)
    if not log.isEnabledFor(level):
        return
    fields: dict[str, Any] = {"event": _event(verdict, transfer), "attempt": lease.attempt, "handler": handler}
    if transfer:
        fields |= {"status": transfer.status, "bytes": transfer.bytes, "seconds": round(transfer.seconds, 4)}
    if isinstance(verdict, RetryIn | Release):
        fields["retry_in"] = round(verdict.after, 3)
    if isinstance(verdict, Bury | RetryIn | Strike):
        fields["reason"] = _one_line(verdict.reason)
        if verdict.status is not None:
            fields["status"] = verdict.status
    log.log(level, "page %s: %s (%s)", fields["event"], lease.url, _in_words(fields), extra=fields)


def _event(verdict: Verdict, transfer: Transfer | None) -> str:
    match verdict:
        case Complete():
            return "fetched" if transfer else "skipped"
        case RetryIn():
            return "retried"
        case Bury() | Strike():
            return "failed"
        case _:
            return "given back"


def _in_words(fields: dict[str, Any]) -> str:
    parts = [f"attempt {fields['attempt']}"]
    if fields["handler"]:
        parts.append(f"handler {fields['handler']}")
    if "bytes" in fields:
        parts.insert(0, f"{fields['bytes']:,} bytes in {fields['seconds']:.3f} s")
    if "status" in fields:
        parts.insert(0, f"status {fields['status']}")
    if fields.get("retry_in"):
        parts.append(f"again in {fields['retry_in']:g} s")
    return ", ".join(parts) + (f": {fields['reason']}" if "reason" in fields else "")


def _one_line(reason: str) -> str:
    return " ".join(reason.split())[:LONGEST_REASON]
