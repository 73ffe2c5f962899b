"""Notices: what is wrong with a crawl, in a sentence, and what to do. Every list and page of crawls gets them from here.

They are decided from values that a list of crawls has read anyway; the cost does not depend on the size of a crawl.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from silkline.core.units import format_bytes
from silkline.frontier.admin_verbs.audit import why_paused_itself
from silkline.frontier.admin_verbs.explain_text import clock_time, lost_writes
from silkline.frontier.admin_verbs.forecast import seconds_until_full, seconds_until_out_of_memory
from silkline.frontier.admin_verbs.stats import CrawlStatus, Stats, mostly_failed
from silkline.frontier.transport.redis_errors import MORE_MEMORY
from silkline.frontier.transport.server_info import Memory
from silkline.frontier.verbs.history import Counts, HandlerCounts, unused_handlers
from silkline.frontier.verbs.workers import (
    WorkerState,
    handler_names,
    have_only_tasks,
    missing_capabilities,
    task_reports,
)
from silkline.ops.parsing import plural

NoticeKind = Literal[
    "memory",
    "forecast",
    "alert",
    "needs",
    "proxies",
    "paused",
    "idle",
    "stalled",
    "failing",
    "hosts",
    "dead",
    "full",
    "losses",
    "lost_workers",
    "unused",
]
ALMOST_FULL, FULL = 0.95, 0.98
"""Parts of the memory limit of a server."""
MANY_HOSTS = 0.5
MANY_DEAD, MOST_DEAD = 0.1, 0.5
"""Parts of the requests of an hour that become dead letters. A few letters count only from the second part on."""
FEW_DEAD = 10
HORIZON = 12 * 3600.0
"""Seconds. What a forecast sees further away is not reported."""
MANY_PAGES = 100
"""Pages from which on a handler without one is suspicious."""
DAY = 86_400.0
_CLAIMED = ("running", "full", "draining")
_OVER = ("finished", "empty", "cancelled")


class Notice(NamedTuple):
    """Something that a person should know or do."""

    kind: NoticeKind
    text: str
    severe: bool
    """Whether the crawl does nothing useful until it is handled."""
    short: str = ""
    """A few words for a table, unless the state of the crawl says it."""
    remedy: str = ""
    """What to do."""
    see: str = ""
    """The command that shows more."""
    page: str = ""
    """The path of the page of the dashboard that shows more."""

    @property
    def sentence(self) -> str:
        """The text with what to do, or with the command that shows more."""
        more = self.remedy or (f"see {self.see}" if self.see else "")
        return f"{self.text}: {more}" if more else self.text

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "severe": self.severe, "text": self.text, "remedy": self.remedy, "see": self.see}


def memory_notice(memory: Memory, crawls: Iterable[CrawlStatus] = ()) -> Notice | None:
    """Return the notice of a server that is out of memory, or almost, or that will be if it grows as its *crawls* recorded.

    It concerns all crawls of the server.
    """
    left = seconds_until_out_of_memory(memory, crawls)
    if memory.limit is None or (memory.used < ALMOST_FULL * memory.limit and left > HORIZON):
        return None
    full, use = is_out_of_memory(memory), f"{format_bytes(memory.used)} of {format_bytes(memory.limit)}"
    if memory.used >= ALMOST_FULL * memory.limit:
        text = f"the server is {'' if full else 'almost '}out of memory ({use})"
    else:
        text = f"the server will be out of memory in about {_rough(left)} at this rate ({use})"
    kind: NoticeKind = "memory" if memory.used >= ALMOST_FULL * memory.limit else "forecast"
    return Notice(kind, text, severe=full, remedy=MORE_MEMORY, see="silkline doctor", page="/redis")


def is_out_of_memory(memory: Memory) -> bool:
    """Return whether a server has reached its limit, almost exactly: what it refuses to store, it does not keep."""
    return memory.limit is not None and memory.used >= FULL * memory.limit


def crawl_notices(
    status: CrawlStatus, workers: Sequence[WorkerState] = (), handlers: Mapping[str, HandlerCounts] | None = None
) -> list[Notice]:
    """Return the notices of a crawl, severe ones first.

    Some need the *workers* and the counts by *handlers*, which lists of crawls do not read.
    """
    found = [
        *_alerts(status),
        *_needs(status, workers),
        *_proxies(status, workers),
        *_waits_for_a_person(status),
        *_works_in_vain(status),
        *_hosts(status),
    ]
    found += [*_dead(status), *_full(status), *_losses(status), *_unused(status, workers, handlers or {})]
    return sorted(found, key=lambda notice: not notice.severe)


def urgency(notices: Iterable[Notice]) -> int:
    """Return a sort key for crawls: 0 with a severe notice, 1 with another, 2 without."""
    return min((0 if notice.severe else 1 for notice in notices), default=2)


def _alerts(status: CrawlStatus) -> Iterator[Notice]:
    """Notices of the alerts that fire. They stay when the crawl is finished: its items may be incomplete."""
    for alert in status.activity.firing:
        text = f"unhealthy since {clock_time(alert.since)}: {alert.text} (alert {alert.rule})"
        yield Notice("alert", text, severe=True, short="unhealthy", see=f"silkline status {status.stats.crawl}")


def _needs(status: CrawlStatus, workers: Sequence[WorkerState]) -> Iterator[Notice]:
    see = f"silkline workers ls {status.stats.crawl}"
    for lack in missing_capabilities(workers):
        yield Notice("needs", str(lack), severe=not lack.met, short="no such worker", see=see, page="/workers")


def _proxies(status: CrawlStatus, workers: Sequence[WorkerState]) -> Iterator[Notice]:
    """Notice that workers fetch nothing because no proxy works."""
    alive = [worker for worker in workers if worker.alive]
    troubled = [worker for worker in alive if worker.info.get("proxies")]
    if not troubled or status.word in _OVER:
        return
    text = f"pages wait, because {troubled[0].info['proxies']}"
    severe = len(troubled) == len(alive)
    if not severe:
        text = f"{len(troubled)} of {plural(len(alive), 'worker')}: {text}"
    see = f"silkline proxy ls {status.stats.crawl}"
    yield Notice("proxies", text, severe=severe, short="no proxy works", see=see, page="/proxies")


def _waits_for_a_person(status: CrawlStatus) -> Iterator[Notice]:
    """Notices of a crawl that is paused, or that no worker claims."""
    name, by = status.stats.crawl, status.paused_by
    wait = plural(status.waiting, "waiting request")
    why = why_paused_itself([by] if by else [])
    if status.stats.state == "paused" and status.waiting and why:
        text = f"paused itself with {wait}, because {why}"
        remedy = (
            f"correct the file and restart the workers with it, then: silkline dead revive {name} and "
            f"silkline crawl resume {name}; or, on one machine: silkline run FILE --revive"
        )
        see = f"silkline dead ls {name}"
        yield Notice("paused", text, severe=True, short="paused itself", remedy=remedy, see=see, page="/dead")
    elif status.stats.state == "paused" and status.waiting:
        text, remedy = (
            f"paused{f' by {by.by}' if by else ''} with {wait}",
            f"continue with silkline crawl resume {name}",
        )
        yield Notice("paused", text, severe=False, remedy=remedy, see=f"silkline crawl audit {name}", page="/audit")
    if status.advice:
        text, _, remedy = status.advice.partition(": ")
        short, see = "all quiet" if status.activity.workers else "no worker", f"silkline workers ls {name}"
        yield Notice("idle", text, severe=True, short=short, remedy=remedy, see=see, page="/workers")


def _works_in_vain(status: CrawlStatus) -> Iterator[Notice]:
    """Notices of a crawl that workers claim, without success."""
    stats, activity = status.stats, status.activity
    if status.word not in _CLAIMED:
        return
    lately = activity.five_minutes
    claimable = status.word != "draining" and activity.workers > activity.quiet and stats.hosts_ready
    if activity.had_work and not (lately.ended or lately.pages or lately.errors) and (claimable or stats.held):
        run = f"{plural(activity.workers, 'worker')} {'runs' if activity.workers == 1 else 'run'}"
        text, see = f"nothing ended in the last 5 minutes, although {run}", f"silkline workers ls {stats.crawl}"
        severe = bool(claimable)  # else what is in progress may just take long
        yield Notice("stalled", text, severe=severe, short="no progress", see=see, page="/workers")
    attempts = lately.pages + lately.errors
    if mostly_failed(lately):
        part = _percent(lately.errors, attempts)
        text = f"{f'{part} of {attempts:,} attempts' if lately.pages else 'every attempt'} failed in the last 5 minutes"
        text += f", most of them {status.cause}" if status.cause else ""
        see, page = f"silkline dead ls {stats.crawl}", "/dead"
        if _fail_at_hosts(lately) and not stats.dead:
            see, page = f"silkline host ls {stats.crawl} --sort trouble", "/hosts"
        yield Notice("failing", text, severe=not lately.pages, short=f"{part} fail", see=see, page=page)


def _fail_at_hosts(counts: Counts) -> bool:
    """Return whether at least half of the failures are those of fetches; the others are those of handlers."""
    fetched_well = max(0, counts.status_2xx - counts.pages)
    return 2 * fetched_well <= counts.errors


def _hosts(status: CrawlStatus) -> Iterator[Notice]:
    stats, closed = status.stats, status.stats.hosts_closed
    hosts = stats.hosts_ready + stats.hosts_waiting
    if stats.state != "open" or status.word in _OVER or not closed or closed < MANY_HOSTS * (hosts + stats.held):
        return
    are, severe = "is" if closed == 1 else "are", closed == hosts and not stats.held
    text = f"{closed:,} of {plural(hosts, 'host')} {are} blocked or slowed down for more than a minute"
    short, see = f"{closed:,}/{hosts:,} hosts closed", f"silkline host ls {stats.crawl}"
    yield Notice("hosts", text, severe=severe, short=short, see=see, page="/hosts")


def _dead(status: CrawlStatus) -> Iterator[Notice]:
    dead, ended = min(status.activity.hour.buried, status.stats.dead), status.activity.hour.ended
    if not dead or dead < (MANY_DEAD if dead >= FEW_DEAD else MOST_DEAD) * ended:
        return
    ended = max(dead, ended)
    letters = "a dead letter" if dead == 1 else "dead letters"
    text = f"{dead:,} of {plural(ended, 'request')} became {letters} in the last hour"
    short, see = f"{_percent(dead, ended)} dead", f"silkline dead ls {status.stats.crawl}"
    yield Notice("dead", text, severe=dead >= MOST_DEAD * ended, short=short, see=see, page="/dead")


def _full(status: CrawlStatus) -> Iterator[Notice]:
    stats = status.stats
    if stats.full and status.word not in _OVER:
        text = "at its capacity, so feeds pause, and new links wait on the disks of workers, or their pages are retried"
        yield Notice("full", text, severe=False, remedy=_more_room(stats, "it"))
    elif status.word not in _OVER and (left := seconds_until_full(status)) <= HORIZON:
        use = f"{stats.pending:,} of {stats.capacity:,} requests wait"
        text, remedy = f"full in about {_rough(left)} at this rate ({use})", _more_room(stats, "the capacity")
        yield Notice("forecast", text, severe=False, short=f"full in {_rough(left)}", remedy=remedy)


def _rough(seconds: float) -> str:
    """Return a duration as precisely as a forecast is."""
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{math.ceil(seconds / 60)} min"


def _more_room(stats: Stats, capacity: str) -> str:
    return f"add workers, or raise {capacity} with silkline crawl set {stats.crawl} --capacity {2 * stats.capacity}"


def _losses(status: CrawlStatus) -> Iterator[Notice]:
    """Notices of lost writes and lost workers. Nothing has to be done at once: requests are rescued."""
    stats, lost = status.stats, status.activity.lost
    if stats.lost_at and status.activity.time - stats.lost_at < DAY:
        text, remedy = lost_writes(stats.losses, stats.lost_at), f"check it with silkline fsck {stats.crawl}"
        yield Notice("losses", text, severe=False, short="lost writes", remedy=remedy)
    if lost and status.word not in _OVER:
        workers = plural(lost, "worker")
        text, see = (
            f"{workers} {'was' if lost == 1 else 'were'} lost in the last hour",
            f"silkline workers ls {stats.crawl}",
        )
        yield Notice("lost_workers", text, severe=False, short=f"{workers} lost", see=see, page="/workers")


def _unused(
    status: CrawlStatus, workers: Sequence[WorkerState], handlers: Mapping[str, HandlerCounts]
) -> Iterator[Notice]:
    """Notices of handlers that live workers have, and that got no page: a selector may find no links."""
    pages = sum(counts.pages for counts in handlers.values())
    if pages < MANY_PAGES:
        return
    alive = [worker for worker in workers if worker.alive]
    if have_only_tasks(alive):
        return
    tasks = task_reports(alive)
    names = dict.fromkeys(name for worker in alive for name in handler_names(worker) if name not in tasks)
    for name in unused_handlers(names, handlers):
        text = f"handler {name} got none of {pages:,} pages"
        remedy = "check that the selectors of the other handlers find its links"
        see = f"silkline status {status.stats.crawl}"
        yield Notice("unused", text, severe=False, short="unused handler", remedy=remedy, see=see)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part // whole} %"
