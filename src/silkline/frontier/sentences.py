"""Why a page is not crawled, in sentences. Pure: what is known goes in, words come out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from silkline.core.lease import Lease, State
from silkline.core.robots import rule_against
from silkline.frontier.acts import Act
from silkline.frontier.host_state import HostState
from silkline.frontier.letters import DeadLetter
from silkline.frontier.roster import WorkerState

DONE_TEXT = (
    "done: it was seen, and nothing of it waits any more; it completed, or was dropped by cancel, purge or a budget."
)
FEW, MUCH = 5, 0.2
"""Of fewer answers nothing is said; nor while a smaller part of them is no good."""
NEVER_SEEN = "never seen: nobody has enqueued it, or it was refused or forgotten."


class Explanation(NamedTuple):
    """Where a request stands, in a word and in sentences."""

    state: State | None
    text: str
    host: HostState
    lease: Lease | None = None
    letter: DeadLetter | None = None
    worker: str | None = None
    """Who holds the lease, if that worker tells what it is at."""

    def adding(self, *sentences: str) -> Explanation:
        return self._replace(text=" ".join([self.text, *(sentence for sentence in sentences if sentence)]))


def clock_time(seconds: float) -> str:
    """A unix time as people read it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 120:
        return f"{max(0.0, seconds):.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def ready(host: HostState, position: int, priority: int) -> Explanation:
    """*position* counts from 1, over all that its host has to do before."""
    text = f"ready: number {position:,} of {max(position, host.queued):,} on its host, at priority {priority}."
    return Explanation(State.READY, text, host)


def too_deep(looked: int, host: HostState) -> str:
    """Of a request that was seen, on a host with more than can be looked through."""
    return f"seen, and not among the first {looked:,} of {host.queued:,} that wait on its host: it waits behind them, or is done."


def leased(host: HostState, lease: Lease, workers: Sequence[WorkerState] = ()) -> Explanation:
    worker = next((one.name for one in workers if lease.url in at_work_on(one)), None)
    by = f" by worker {worker}" if worker else ""
    text = f"leased{by}: attempt {lease.attempt} is under way; the lease runs until {clock_time(lease.expires)}."
    return Explanation(State.LEASED, text, host, lease=lease, worker=worker)


def at_work_on(worker: WorkerState) -> list[str]:
    """The URLs that a worker tells it is fetching now."""
    urls = worker.info.get("urls")
    return [str(url) for url in urls] if isinstance(urls, list) else []


def delayed(host: HostState, lease: Lease, now: float, attempts: int | None) -> Explanation:
    """*attempts* is how many there are at most, if that is known."""
    due = f"in {span(lease.expires - now)}, at {clock_time(lease.expires)}"
    if lease.attempt:
        last = f", after {lease.history[-1].reason}" if lease.history else ""
        of = f" of {attempts}" if attempts else ""
        text = f"delayed: retry, attempt {lease.attempt + 1}{of} comes {due}{last}."
    elif lease.history:
        text = f"delayed: it was given back and comes again {due}."
    else:
        text = f"delayed: it asked not to go before; it comes {due}."
    return Explanation(State.DELAYED, text, host, lease=lease)


def dead(host: HostState, letter: DeadLetter) -> Explanation:
    times = "1 attempt" if letter.attempts == 1 else f"{letter.attempts} attempts"
    text = f"dead since {clock_time(letter.last)} after {times}: {letter.reason}."
    return Explanation(State.DEAD, text, host, letter=letter)


def held_back(crawl_state: str, host: HostState, acts: Sequence[Act] = ()) -> str:
    """What keeps a ready request from being claimed."""
    if crawl_state != "open":
        return paused("crawl", crawl_state, acts, "")
    if host.place == "waiting":
        return f"The host opens in {host.opens_in:.1f} s because {_why_it_waits(host)}."
    if host.place == "busy":
        return f"The host is at its cap of {host.concurrency} under way."
    if host.place == "paused":
        return paused("host", "paused", acts, host.host)
    return "The host is open and waits for a worker."


def paused(what: str, state: str, acts: Sequence[Act], host: str) -> str:
    """That a crawl or a host is paused or cancelled, and by whom if that was noted."""
    verb = {"paused": "pause", "cancelled": "cancel"}.get(state, state)
    for act in acts:
        if act.about == host and act.what == verb:
            return f"The {what} is {state}: by {act.by}, at {clock_time(act.time)}."
    return f"The {what} is {state}."


def _why_it_waits(host: HostState) -> str:
    if host.blocked_until:
        return "it is blocked"
    if host.slowed_from is not None:
        return f"the site complained: its delay is {host.pace}"
    if host.crawl_delay is not None and host.crawl_delay == host.delay:
        return f"robots.txt asks for a Crawl-delay of {host.crawl_delay:g} s"
    return f"of its delay of {host.pace}"


def troubled(host: HostState) -> str:
    """What a host answered of late, if much of it was no good; else nothing."""
    answers = host.answers
    if answers is None or answers.total < FEW or answers.trouble < MUCH:
        return ""
    last = f"status {answers.last}" if answers.last else "no answer at all"
    return f"The host is in trouble: of what it answered of late {answers.mix}; last came {last}."


def refused(crawl_state: str, host: HostState, pages_per_host: int | None) -> str:
    """Why the crawl would refuse the request now; empty if it would take it."""
    if crawl_state == "cancelled":
        return "It would be refused: the crawl is cancelled."
    if pages_per_host is not None and host.pages >= pages_per_host:
        return f"It would be refused: the host's budget of {pages_per_host:,} pages is spent."
    return ""


def forbidden(text: bytes | None, agent: str, url: str) -> str:
    """What the robots.txt that the fleet has says against a URL; empty if nothing, or if there is none."""
    rule = rule_against(text, agent, url) if text else None
    if rule is None:
        return ""
    where = f"line {rule.line}: {rule.text}" if rule.line else "its rules are too costly to match"
    return f"robots.txt forbids it to {agent} ({where})."
