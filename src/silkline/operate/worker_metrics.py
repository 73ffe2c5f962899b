"""The metrics of one process: what its workers did and how long it took them."""

from __future__ import annotations

from typing import Protocol

from silkline.metrics.text import Family, Sample, counter, gauge, histogram
from silkline.worker.tally import Tally

MOST_ERRORS = 20
"""Kinds of errors that get a value of their own; the names of exceptions are users' words."""

TOTALS = {
    "pages": "Pages whose handler ran to its end.",
    "items": "Items stored.",
    "bytes": "Bytes of answers, as they are handled.",
    "links": "Links that were new.",
    "known": "Links that were known here, and not offered to the frontier again.",
    "ended": "Requests completed or buried.",
    "redirects": "Redirects.",
    "retried": "Attempts that are to be repeated.",
    "buried": "Requests given up.",
    "dropped": "Pages that a handler dropped.",
    "lost": "Leases that somebody else held when they were to end.",
    "missed": "Pages given back because they could not begin in time.",
    "robots_denied": "Pages that robots.txt forbids.",
    "robots_fetched": "Fetches of robots.txt.",
}


class Subject(Protocol):
    """A worker, or the fleet of a run."""

    @property
    def tally(self) -> Tally: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def stall(self) -> str | None:
        """Why nothing is claimed though it should be; None when all is well."""

    @property
    def hung(self) -> bool:
        """Whether only a new process can mend that."""


def worker_families(crawl: str, subject: Subject) -> list[Family]:
    tally = subject.tally
    families = [
        counter(f"silkline_worker_{name}_total", text, getattr(tally, name), crawl=crawl)
        for name, text in TOTALS.items()
    ]
    statuses = [
        Sample(count, {"crawl": crawl, "class": f"{kind}xx"}) for kind, count in sorted(tally.status_classes.items())
    ]
    return [
        *families,
        Family("silkline_fetch_responses_total", "counter", "Answers by class of status.", statuses),
        _errors(crawl, tally),
        histogram("silkline_fetch_seconds", "How long answers took.", {"": tally.latency}, crawl=crawl),
        histogram("silkline_script_seconds", "How long calls of the frontier took.", dict(tally.scripts), "script"),
        counter(
            "silkline_worker_busy_seconds_total", "How long pages were under way.", tally.busy_seconds, crawl=crawl
        ),
        counter(
            "silkline_worker_blocked_seconds_total", "How long handlers blocked.", tally.blocked_seconds, crawl=crawl
        ),
        gauge("silkline_worker_in_flight", "Pages under way.", subject.in_flight, crawl=crawl),
        gauge(
            "silkline_worker_stalled", "Whether the claim loop stands still.", subject.stall is not None, crawl=crawl
        ),
    ]


def _errors(crawl: str, tally: Tally) -> Family:
    named = tally.errors.most_common(MOST_ERRORS)
    samples = [Sample(count, {"crawl": crawl, "kind": kind}) for kind, count in named]
    rest = sum(tally.errors.values()) - sum(count for _, count in named)
    if rest:
        samples.append(Sample(rest, {"crawl": crawl, "kind": "other"}))
    return Family(
        "silkline_errors_total", "counter", "Failed fetches by kind, and handlers by their exception.", samples
    )
