"""Summary: the results of one run, and the state of the crawl at its end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from silkline.frontier.admin_verbs.stats import Stats
from silkline.runtime.counters import Counters

SLOWEST = 5
MOST_REASONS = 20
"""Groups of dead letters that a summary has."""


class SlowHost(msgspec.Struct, frozen=True):
    """A host, and how long its pages took on average."""

    host: str
    pages: int
    seconds: float


class DeadReason(msgspec.Struct, frozen=True):
    """A group of dead letters: its reason, how many there are, and the URL, reason and id of one of them.

    *example*, *message* and *id* are empty if none of the group is among the newest letters.
    """

    reason: str
    count: int
    example: str = ""
    message: str = ""
    id: str = ""


class RunInfo(msgspec.Struct, kw_only=True):
    """Information about a run, apart from its pages."""

    seconds: float = 0.0
    resumed: bool = False
    interrupted: bool = False
    workers: int = 1
    restarts: int = 0
    waits_for: list[str] = []
    """Why it ended though pages are left: what they need, and no worker has."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What `on_finish` hooks get, and what ``silkline run --json`` prints.

    The counts down to *hosts* are of this run; *ready*, *delayed*, *leased*, *done*, *dead*, *dead_dropped*, *seen*, *rescued* and *losses*
    are of the whole crawl, as it stands now.
    """

    crawl: str
    finished: bool
    """Whether nothing is left to do, or the budget is spent."""
    interrupted: bool
    resumed: bool
    seconds: float
    pages: int
    pages_per_second: float
    calls: int
    """Calls of tasks, which do not count as pages."""
    items: int
    bytes: int
    links: int
    redirects: int
    revisited: int
    """Visits of pages that had been visited before. Of these, `not_modified` got status 304, and `unchanged` were as they were."""
    not_modified: int
    unchanged: int
    retried: int
    dropped: int
    given_back: dict[str, int]
    """Pages that workers could not handle and gave back, by what they need."""
    robots_denied: int
    statuses: dict[int, int]
    errors: dict[str, int]
    skipped: dict[str, int]
    """Links that were not followed, by reason."""
    slowest_hosts: list[SlowHost]
    blocked_seconds: float
    """How long handlers kept a worker from anything else."""
    workers: int
    restarts: int
    """Workers that died and were started again."""
    ready: int
    delayed: int
    leased: int
    done: int
    dead: int
    seen: int
    rescued: int
    """Requests that were rescued from lost workers."""
    losses: int
    """How often the server was found to have lost its last writes, after a failover or restart."""
    lost_at: float | None
    """Unix time at which that was noticed last."""
    dead_letters: list[DeadReason]
    dead_dropped: int = 0
    """Dead letters that were dropped, because the crawl had more than its `dead_limit`."""
    paused: str = ""
    """The operator who paused the crawl, or why a worker paused it; empty if it is not paused."""
    waits_for: list[str] = []
    """Why it ended though pages are left: what they need, and no worker has."""
    unused_handlers: list[str] = []
    """Handlers of the file that got no page since the crawl began, if nothing is left to do."""

    @property
    def sound(self) -> bool:
        """Whether the crawl is finished, and nothing was given up."""
        return self.finished and not self.dead


def summarize(  # noqa: PLR0913 - the parts of a summary
    stats: Stats,
    counters: Counters,
    run_info: RunInfo,
    dead: Sequence[DeadReason] = (),
    *,
    finished: bool,
    paused: str = "",
    unused: Sequence[str] = (),
    tasks: Sequence[str] = (),
) -> Summary:
    """Return the summary of a run. *tasks* are the names of the tasks of its crawl."""
    totals = (
        "crawl",
        "ready",
        "delayed",
        "leased",
        "done",
        "dead",
        "dead_dropped",
        "seen",
        "rescued",
        "losses",
        "lost_at",
    )
    now = {name: getattr(stats, name) for name in totals}
    calls = sum(counters.handlers[name].pages for name in tasks if name in counters.handlers)
    pages = counters.pages - calls
    same = (
        "items",
        "bytes",
        "links",
        "redirects",
        "revisited",
        "not_modified",
        "unchanged",
        "retried",
        "dropped",
        "robots_denied",
    )
    return Summary(
        **now,
        **{name: getattr(counters, name) for name in same},
        finished=finished,
        interrupted=run_info.interrupted,
        resumed=run_info.resumed,
        seconds=round(run_info.seconds, 3),
        pages=pages,
        pages_per_second=round(pages / run_info.seconds, 2) if run_info.seconds else 0.0,
        calls=calls,
        statuses=dict(sorted(counters.statuses.items())),
        errors=dict(counters.errors.most_common()),
        skipped=dict(counters.skipped.most_common()),
        slowest_hosts=_slowest(counters),
        blocked_seconds=round(counters.blocked_seconds, 3),
        workers=run_info.workers,
        restarts=run_info.restarts,
        dead_letters=list(dead),
        paused=paused,
        given_back=dict(counters.given_back.most_common()),
        waits_for=run_info.waits_for,
        unused_handlers=list(unused),
    )


def _slowest(counters: Counters) -> list[SlowHost]:
    slow = sorted(counters.hosts.items(), key=lambda pair: pair[1].mean, reverse=True)[:SLOWEST]
    return [SlowHost(host, times.pages, round(times.mean, 3)) for host, times in slow]
