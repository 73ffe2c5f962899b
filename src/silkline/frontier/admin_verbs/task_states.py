"""The tasks of a crawl: their queues, joined with what workers did and report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, get_args

from silkline.core.url import is_host
from silkline.frontier.admin_verbs.requests import ListedState, requests
from silkline.frontier.store.keys import ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import Command, Flow, ask, ask_all, load
from silkline.frontier.verbs.history import HandlerCounts, handlers
from silkline.frontier.verbs.hosts import HostState, hosts
from silkline.frontier.verbs.workers import TaskReport, task_reports, workers

MOST_TASKS = 100
"""Tasks that are listed."""
MOST_SAMPLED = 20
"""Hosts without a known task of which one request is read, to see whether it is a call."""
MOST_ASKED_WORKERS = 1000
MOST_DELAYED = 1000
"""Delayed requests of a shard that are examined. If there are more, their number per task is an estimate."""


class TaskState(NamedTuple):
    """The state of one task: of its calls in the queue, and of what workers did since the crawl began."""

    name: str
    place: str
    """ready, waiting (for its rate), busy (at its concurrency), paused, resting or unknown, as for a host."""
    waiting: int
    """Calls that wait for a worker, without delayed ones."""
    delayed: int
    """Calls that wait for their time: with `at`, `delay` or a schedule, and retries. An estimate if a shard has more than 1,000."""
    running: int
    done: int
    """Calls that completed."""
    failures: int
    """Attempts that failed: tried again, or given up."""
    dead: int
    """Calls that became dead letters."""
    rate: float
    """Calls per second that live workers completed between their last two reports."""
    p50: float | None
    """The median duration of an attempt in seconds; None if none was measured."""
    p95: float | None
    delay: float
    """Seconds between two starts: the rate limit."""
    concurrency: int
    workers: int
    """Live workers that have the task."""
    schedule: str
    """How often a recurring task is called, in words; "" for others, and if no worker has reported it."""
    next_tick: float | None
    """Unix time of the next call of a recurring task."""

    @property
    def state(self) -> str:
        """The place, but running or idle if no call waits for a worker."""
        if self.place == "paused" or self.waiting:
            return self.place
        return "running" if self.running else "idle"


def tasks(layout: CrawlLayout) -> Flow[list[TaskState]]:
    """Return the tasks that workers have, that were run, or whose calls wait. The cost does not depend on the size of the crawl."""
    roster = yield from ask(workers(layout.keys, MOST_ASKED_WORKERS))
    counted = yield from ask(handlers(layout.keys))
    reported = task_reports(roster)
    delayed = yield from delayed_by_host(layout)
    names, left = [*reported], MOST_SAMPLED
    queued = yield from hosts(layout, MOST_TASKS, ())
    for host in dict.fromkeys([*(one.host for one in queued), *(host for host, _ in delayed.most_common())]):
        if left and host not in reported and (may_be_task(host) or host in counted):
            left -= 1
            names += [host] if (yield from has_calls(layout, host, counted)) else []
    states = (yield from hosts(layout, MOST_TASKS, names[:MOST_TASKS])) if names else []
    return task_states(states, delayed, counted, reported)


def delayed_by_host(layout: CrawlLayout) -> Flow[Counter[str]]:
    """Return the number of delayed requests of each host, an estimate if there are many."""
    total: Counter[str] = Counter()
    for counts in (yield from ask_all(count_delayed(keys) for keys in layout.shards)):
        total.update(counts)
    return total


def count_delayed(keys: ShardKeys) -> Command[dict[str, int]]:
    def decode(reply: list[Any]) -> dict[str, int]:
        delayed, examined, *pairs = reply
        return {
            host.decode(): round(count * delayed / examined)
            for host, count in zip(pairs[::2], pairs[1::2], strict=True)
        }

    return Command(load("count_delayed"), (keys.ledger,), (MOST_DELAYED,), decode)


def may_be_task(host: str) -> bool:
    """Return whether a host that no worker has reported as a task is sampled: sites have a dot."""
    return "." not in host and ":" not in host and host != "localhost" and is_host(host)


def has_calls(layout: CrawlLayout, name: str, counted: Mapping[str, HandlerCounts]) -> Flow[bool]:
    """Return whether the first request of a host is a call of a task. Without any, a handler of this name was one."""
    for state in get_args(ListedState):
        page = yield from requests(layout, state, name, 1, "", now=0.0)
        if page.requests:
            return page.requests[0].request.handler == name
    return name in counted


def task_states(
    found: Iterable[HostState],
    delayed: Mapping[str, int],
    counted: Mapping[str, HandlerCounts],
    reported: Mapping[str, TaskReport],
) -> list[TaskState]:
    """Join what is known of tasks: those with the most work first."""
    states = []
    for host in found:
        counts, report = counted.get(host.host, HandlerCounts()), reported.get(host.host, TaskReport())
        states.append(
            TaskState(
                name=host.host,
                place=host.place,
                waiting=host.queued,
                delayed=delayed.get(host.host, 0),
                running=host.leased,
                done=counts.pages,
                failures=counts.failures,
                dead=counts.dead,
                rate=report.rate,
                p50=counts.p50,
                p95=counts.p95,
                delay=host.delay,
                concurrency=host.concurrency,
                workers=report.workers,
                schedule=report.schedule,
                next_tick=report.next_tick,
            )
        )
    return sorted(states, key=lambda task: (-task.running - task.waiting, -task.delayed, task.name))
