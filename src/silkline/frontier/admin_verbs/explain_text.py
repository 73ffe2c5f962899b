"""Sentences that explain why a page is not crawled yet. The functions are pure: they neither read nor send."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from silkline.core.lease import Lease, State
from silkline.core.revisit import LastVisit
from silkline.core.robots import rule_against
from silkline.core.units import format_duration
from silkline.frontier.admin_verbs.audit import AuditEntry, who_paused
from silkline.frontier.admin_verbs.dead_letters import DeadLetter
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.verbs.groups import GroupState
from silkline.frontier.verbs.history import Counts, wait_quantile
from silkline.frontier.verbs.hosts import HostState
from silkline.frontier.verbs.workers import WorkerState, has_handler

MOST_PRIORITIES = 6
FEW, MUCH = 5, 0.2
"""The responses of a host are mentioned if there are at least FEW, and at least this share of them failed."""
NEVER_SEEN = "never seen: it was not enqueued, or it was refused or forgotten."


class Explanation(NamedTuple):
    """The state of a request, and sentences that explain it."""

    state: State | None
    text: str
    host: HostState
    lease: Lease | None = None
    letter: DeadLetter | None = None
    worker: str | None = None
    """The worker that holds the lease, if it reports the URLs that it is fetching."""
    handler: str | None = None
    """The handler that a waiting request names."""
    created: float | None = None
    """Unix time at which it was enqueued, as `Lease.created`."""

    def adding(self, *sentences: str) -> Explanation:
        return self._replace(text=" ".join([self.text, *(sentence for sentence in sentences if sentence)]))


def clock_time(seconds: float) -> str:
    """Format a unix time, such as ``2027-01-15 08:00:00 UTC``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def lost_writes(losses: int, lost_at: float) -> str:
    """Return a sentence that the server lost its last writes."""
    times = "" if losses == 1 else f" ({losses} times in total)"
    return f"the server lost its last writes at {clock_time(lost_at)}{times}, after a failover or restart; some pages may be fetched again"


def span(seconds: float) -> str:
    """Format a duration, such as ``40 s``."""
    if seconds < 120:
        return f"{max(0.0, seconds):.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def age(found: Explanation, now: float) -> str:
    """Return a sentence about when a request was enqueued; empty if that is not known, or less than a second ago."""
    seconds = 0 if found.created is None else int(now - found.created)
    if found.created is None or seconds < 1:
        return ""
    if found.state in (State.LEASED, State.DEAD):
        return f"It was enqueued at {clock_time(found.created)}."
    return f"It has been waiting for {f'{seconds} s' if seconds < 120 else span(seconds)}."


def describe_priorities(stats: Stats) -> str:
    """Describe how many ready requests have which priority; empty if all have priority 0."""
    if not set(stats.priorities) - {0}:
        return ""
    top = list(stats.priorities.items())[:MOST_PRIORITIES]
    rest = sum(stats.priorities.values()) - sum(count for _, count in top)
    words = [f"{count:,} at {priority}" for priority, count in top] + ([f"{rest:,} at lower ones"] if rest else [])
    return f"{', '.join(words)} (of the ready requests)"


def describe_waits(counts: Counts) -> str:
    """Describe how long requests had waited that were claimed in the last hour; empty if none was."""
    median, most = wait_quantile(counts, 0.5), wait_quantile(counts, 0.95)
    if median is None or most is None:
        return ""
    return f"half of the requests at most {span(median)}, 95 % at most {span(most)}, in the last hour"


def ready(
    host: HostState, position: int, priority: int, handler: str | None = None, created: float | None = None
) -> Explanation:
    """*position* is that in the queue of the host: it counts from 1, over all priorities."""
    text = f"ready: number {position:,} of {max(position, host.queued):,} on its host, at priority {priority}."
    return Explanation(State.READY, text, host, handler=handler, created=created)


def describe_revisits(counts: Counts) -> str:
    """Describe how many visits were repeated ones, and what they found; empty if there was none."""
    if not counts.revisited:
        return ""
    found = [f"{counts.not_modified:,} times status 304"] if counts.not_modified else []
    found += [f"{counts.unchanged:,} unchanged pages"] if counts.unchanged else []
    return f"{counts.revisited:,} visits of known pages" + (f": {', '.join(found)}" if found else "")


def unhandled(handler: str | None, workers: Sequence[WorkerState]) -> str:
    """Return a sentence if no live worker has the handler of a request; empty if one has it, or if no worker is alive."""
    alive = [worker for worker in workers if worker.alive]
    if handler is None or not alive or any(has_handler(worker, handler) for worker in alive):
        return ""
    return f"It needs a handler named {handler!r}, and no live worker has one."


def too_deep(looked: int, host: HostState) -> str:
    """Return the text for a request that was seen, on a host with more requests than are searched."""
    return f"seen, but not among the first {looked:,} of {host.queued:,} waiting requests of its host: it waits behind them, or is done."


def leased(host: HostState, lease: Lease, workers: Sequence[WorkerState] = ()) -> Explanation:
    worker = next((one.name for one in workers if lease.url in urls_in_progress(one)), None)
    by = f" by worker {worker}" if worker else ""
    text = f"leased{by}: attempt {lease.attempt} is in progress; the lease expires at {clock_time(lease.expires)}."
    return Explanation(State.LEASED, text, host, lease=lease, worker=worker, created=lease.created)


def urls_in_progress(worker: WorkerState) -> list[str]:
    """Return the URLs that a worker reports it is fetching."""
    urls = worker.info.get("urls")
    return [str(url) for url in urls] if isinstance(urls, list) else []


def delayed(host: HostState, lease: Lease, now: float, attempts: int | None) -> Explanation:
    """*attempts* is the maximum number of attempts, if it is known."""
    due = f"due in {span(lease.expires - now)}, at {clock_time(lease.expires)}"
    if lease.suspect:
        text = f"delayed: {_doubt(lease)}; it is tried separately, as soon as a worker and its host are free."
    elif lease.attempt:
        last = f", after {lease.history[-1].reason}" if lease.history else ""
        of = f" of {attempts}" if attempts else ""
        text = f"delayed: retry, attempt {lease.attempt + 1}{of} is {due}{last}."
    elif lease.request.visit is not None:
        text = f"delayed: it was visited, and its next visit is {due}. {_visits(lease.request.visit)}"
    elif lease.history or lease.first:
        text = f"delayed: it was released and is {due}."
    else:
        text = f"delayed: it has a not_before time and is {due}."
    return Explanation(State.DELAYED, text, host, lease=lease, handler=lease.request.handler, created=lease.created)


def _visits(visit: LastVisit) -> str:
    """Describe the visits of a page, and why the next one is when it is."""
    if not visit.changes:
        text = f"It has not changed since its first visit at {clock_time(visit.changed)}"
    else:
        times = "once" if visit.changes == 1 else f"{visit.changes:,} times"
        text = f"It has changed {times}, the last time before the visit at {clock_time(visit.changed)}"
    text += f"; its interval is {format_duration(visit.interval)}"
    if visit.failures:
        times = "visit" if visit.failures == 1 else f"{visit.failures} visits"
        text += f", longer now because the last {times} failed"
    return f"{text}."


def waiting_for(found: Explanation, group: GroupState) -> Explanation:
    """Return the explanation of a call that waits until other calls have ended."""
    failed = f", {group.failed:,} of the others failed" if group.failed else ""
    open_ = "" if group.closed else "; more may join, because their group is not closed"
    left = f"{group.left:,} of {group.calls:,} {'call' if group.calls == 1 else 'calls'}"
    until = f"it becomes a dead letter at {clock_time(group.expires)}"
    return found._replace(text=f"delayed: it waits for {left}{failed}{open_}; if they do not end, {until}.")


def _doubt(lease: Lease) -> str:
    if not lease.crashes:
        return "a worker was lost while holding this request"
    return f"this request crashed {'1 worker' if lease.crashes == 1 else f'{lease.crashes} workers'}"


def dead(host: HostState, letter: DeadLetter) -> Explanation:
    times = "1 attempt" if letter.attempts == 1 else f"{letter.attempts} attempts"
    text = f"dead since {clock_time(letter.last)} after {times}: {letter.reason}."
    return Explanation(State.DEAD, text, host, letter=letter, created=letter.created)


def done(host: HostState, dropped: int) -> Explanation:
    """*dropped* is the number of dead letters of its shard that were dropped."""
    text = "done: it was seen and is no longer stored; it completed, or was dropped by cancel, purge or a budget"
    letters = "1 dead letter was" if dropped == 1 else f"{dropped:,} dead letters were"
    text += f", or is one of the failed ones: {letters} dropped beyond the limit (dead_limit)." if dropped else "."
    return Explanation(State.DONE, text, host)


def held_back(crawl_state: str, host: HostState, entries: Sequence[AuditEntry] = ()) -> str:
    """Return why a ready request has not been claimed yet."""
    if crawl_state != "open":
        return paused("crawl", crawl_state, entries, "")
    if host.place == "waiting":
        return f"The host opens in {host.opens_in:.1f} s because {_why_it_waits(host)}."
    if host.place == "busy":
        return f"The host is at its concurrency limit of {host.concurrency}."
    if host.place == "paused":
        return paused("host", "paused", entries, host.host)
    return "The host is open and waits for a worker."


def paused(what: str, state: str, entries: Sequence[AuditEntry], host: str) -> str:
    """Return a sentence that a crawl or a host is paused or cancelled, with the operator if the audit log names one."""
    entry = who_paused(entries, host) if state == "paused" else None
    if state == "cancelled":
        entry = next((entry for entry in entries if entry.about == host and entry.what == "cancel"), None)
    return f"The {what} is {state} (by {entry.by} at {clock_time(entry.time)})." if entry else f"The {what} is {state}."


def _why_it_waits(host: HostState) -> str:
    if host.blocked_until:
        return "it is blocked"
    if host.slowed_from is not None:
        return f"the site replied 429 or 503: its delay is {host.pace}"
    if host.crawl_delay is not None and host.crawl_delay == host.delay:
        return f"robots.txt asks for a Crawl-delay of {host.crawl_delay:g} s"
    return f"of its delay of {host.pace}"


def troubled(host: HostState) -> str:
    """Return a sentence about the recent responses of a host if many of them failed; else empty."""
    answers = host.answers
    if answers is None or answers.total < FEW or answers.trouble < MUCH:
        return ""
    last = f"the last one is status {answers.last}" if answers.last else "the last request got none"
    return f"The host is in trouble: its recent replies are {answers.mix}, {last}."


def refused(crawl_state: str, host: HostState, pages_per_host: int | None) -> str:
    """Return why the crawl would refuse the request now; empty if it would accept it."""
    if crawl_state == "cancelled":
        return "It would be refused: the crawl is cancelled."
    if pages_per_host is not None and host.pages >= pages_per_host:
        return f"It would be refused: the host's budget of {pages_per_host:,} pages is spent."
    if host.has_share:
        return (
            f"It would not fit: the host has reached its share of the capacity, with {host.queued:,} waiting requests."
        )
    return ""


def forbidden(text: bytes | None, agent: str, url: str) -> str:
    """Return which rule of the stored robots.txt forbids a URL; empty if none does, or if no robots.txt is stored."""
    rule = rule_against(text, agent, url) if text else None
    if rule is None:
        return ""
    where = f"line {rule.line}: {rule.text}" if rule.line else "its rules are too costly to match"
    return f"robots.txt forbids it for {agent} ({where})."
