"""The metrics of one process: what its workers did and how long it took."""

from __future__ import annotations

from typing import Protocol

from silkline.ops.prometheus import Family, Sample, counter, gauge, histogram
from silkline.runtime.counters import Counters

MOST_ERRORS = 20
"""Maximum number of error kinds with their own time series; user code can raise any number of exception classes."""

TOTALS = {
    "pages": "Pages whose handler finished.",
    "items": "Items stored.",
    "bytes": "Bytes of decoded responses.",
    "links": "New links.",
    "known": "Links that this process recently enqueued and skipped.",
    "ended": "Requests completed or buried.",
    "redirects": "Redirects followed.",
    "retried": "Failed attempts that are retried.",
    "buried": "Requests that became dead letters.",
    "revisited": "Visits of pages that had been visited before.",
    "not_modified": "Those to which the server replied 304.",
    "unchanged": "Those whose content was as it was, so that no handler was called.",
    "dropped": "Pages dropped by handlers.",
    "lost": "Leases lost to another worker before they were settled.",
    "missed": "Pages given back because they could not start in time.",
    "robots_denied": "Pages denied by robots.txt.",
    "robots_fetched": "Fetches of robots.txt.",
}


class MetricsSource(Protocol):
    """A worker, or all workers of a run."""

    @property
    def counters(self) -> Counters: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def stall(self) -> str | None:
        """Why the claim loop is stalled, or None."""

    @property
    def hung(self) -> bool:
        """Whether only a restart of the process fixes the stall."""


def worker_families(crawl: str, subject: MetricsSource) -> list[Family]:
    counters = subject.counters
    families = [
        counter(f"silkline_worker_{name}_total", text, getattr(counters, name), crawl=crawl)
        for name, text in TOTALS.items()
    ]
    statuses = [
        Sample(count, {"crawl": crawl, "class": f"{kind}xx"}) for kind, count in sorted(counters.status_classes.items())
    ]
    return [
        *families,
        Family("silkline_fetch_responses_total", "counter", "Responses by status class.", statuses),
        _errors(crawl, counters),
        histogram("silkline_fetch_seconds", "Response time.", {"": counters.latency}, crawl=crawl),
        histogram("silkline_script_seconds", "Duration of frontier calls.", dict(counters.scripts), "script"),
        counter(
            "silkline_worker_busy_seconds_total",
            "Total time that pages were in progress.",
            counters.busy_seconds,
            crawl=crawl,
        ),
        counter(
            "silkline_worker_blocked_seconds_total",
            "Time for which handlers blocked the event loop.",
            counters.blocked_seconds,
            crawl=crawl,
        ),
        gauge("silkline_worker_in_flight", "Pages in progress.", subject.in_flight, crawl=crawl),
        gauge("silkline_worker_stalled", "1 if the claim loop is stalled.", subject.stall is not None, crawl=crawl),
    ]


def _errors(crawl: str, counters: Counters) -> Family:
    named = counters.errors.most_common(MOST_ERRORS)
    samples = [Sample(count, {"crawl": crawl, "kind": kind}) for kind, count in named]
    rest = sum(counters.errors.values()) - sum(count for _, count in named)
    if rest:
        samples.append(Sample(rest, {"crawl": crawl, "kind": "other"}))
    return Family(
        "silkline_errors_total", "counter", "Failed fetches by kind, and handler failures by exception.", samples
    )
