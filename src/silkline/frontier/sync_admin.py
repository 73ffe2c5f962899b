# Generated from admin.py by tools/generate_sync.py. Do not edit: change that module and run `make sync`.
"""SyncCrawlAdmin, which is `SyncFrontier.admin`: the methods for operators and dashboards. They inspect a crawl and control it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

from silkline.core.politeness import Budget, Politeness
from silkline.core.proxy_health import ProxyState
from silkline.core.request import Request
from silkline.frontier.admin_verbs import audit, dead_letters, fsck, requests, settings, stats, task_states
from silkline.frontier.admin_verbs.audit import AuditEntry
from silkline.frontier.admin_verbs.dead_letters import (
    DeadCount,
    DeadFilterArguments,
    DeadGroup,
    DeadLetter,
    GroupedBy,
    dead_filter,
)
from silkline.frontier.admin_verbs.explain_text import Explanation
from silkline.frontier.admin_verbs.fsck import FsckReport
from silkline.frontier.admin_verbs.requests import ListedState, RequestPage
from silkline.frontier.admin_verbs.settings import run_options
from silkline.frontier.admin_verbs.stats import CrawlStatus, Demand, Stats
from silkline.frontier.admin_verbs.task_states import TaskState
from silkline.frontier.store.run_options import RunOptions
from silkline.frontier.store.settings import check_capacity, check_dead_limit
from silkline.frontier.sync_session import SyncCrawlSession
from silkline.frontier.transport.command import ask
from silkline.frontier.verbs import history, hosts, lifecycle, proxies, workers
from silkline.frontier.verbs.history import HandlerCounts, Point
from silkline.frontier.verbs.hosts import HostArguments, HostState, host_words
from silkline.frontier.verbs.workers import WorkerOrder, WorkerState


class SyncCrawlAdmin:
    """Inspects a crawl and controls it: `SyncFrontier.admin`, for operators, dashboards and scripts.

    A change takes effect for all workers of the crawl, also for those that are running.
    """

    def __init__(self, session: SyncCrawlSession) -> None:
        self._session = session

    def stats(self) -> Stats:
        """Return the counts of the crawl."""
        return self._session.run(stats.stats(self._session.layout))

    def status(self) -> CrawlStatus:
        """Return the counts of the crawl, its workers, its recent rate, and one word for its state, such as running or idle."""
        return self._session.run(stats.status(self._session.layout))

    def dead(
        self, *, limit: int = 100, newest: int | None = None, after: str = "", **which: Unpack[DeadFilterArguments]
    ) -> list[DeadLetter]:
        """Return the dead letters that match, newest first; with *after*, those after the letter whose `position` it is.

        A rare reason or status is searched among all of them; with *newest*, among about that many.
        """
        return self._session.run(
            dead_letters.dead(self._session.layout, dead_filter(which, self._session.now()), limit, newest, after)
        )

    def dead_groups(self, by: GroupedBy = "reason", *, limit: int = 20, name: str | None = None) -> list[DeadGroup]:
        """Return the largest groups of dead letters, by reason or by host. The last one, without a name, counts the rest.

        With a *name*, return only the group of that name. The server keeps the counts, so no letters are read.
        """
        return self._session.run(dead_letters.dead_groups(self._session.layout, by, limit, name))

    def dead_examples(self, names: Sequence[str], *, newest: int = 2000) -> dict[str, DeadLetter]:
        """Return a dead letter for each of these groups of reasons, by group name (see `dead_groups`).

        Only about the *newest* letters are searched; a group without a letter among them is left out.
        """
        return self._session.run(dead_letters.dead_examples(self._session.layout, names, newest))

    def count_dead(self, **which: Unpack[DeadFilterArguments]) -> DeadCount:
        """Count the dead letters that match, by reason and by host, for example before they are revived or purged."""
        return self._session.run(dead_letters.count_dead(self._session.layout, dead_filter(which, self._session.now())))

    def revive(self, **which: Unpack[DeadFilterArguments]) -> int:
        """Return the dead letters that match to their queues; without arguments, all. Attempts start at zero, the history is kept.

        Calls of tasks that were cancelled are revived only by *id* or *reason*. Returns how many were revived.
        """
        return self._session.run(
            dead_letters.end_dead(self._session.layout, dead_filter(which, self._session.now()), purge=False)
        )

    def purge(self, **which: Unpack[DeadFilterArguments]) -> int:
        """Delete the dead letters that match; without arguments, all. Their URLs stay seen. Returns how many were deleted."""
        return self._session.run(
            dead_letters.end_dead(self._session.layout, dead_filter(which, self._session.now()), purge=True)
        )

    def hosts(self, *named: str, limit: int = 100) -> list[HostState]:
        """Return the hosts *named*, or up to *limit* hosts that have waiting or leased requests, or settings of their own."""
        return self._session.run(hosts.hosts(self._session.layout, limit, named))

    def workers(self, *, limit: int = 100) -> list[WorkerState]:
        """Return the workers of this crawl, and those lost within the last hour. The last seen come first."""
        return self._session.run(ask(workers.workers(self._session.layout.keys, limit)))

    def proxies(self, *, limit: int = 100) -> list[ProxyState]:
        """Return the proxies of this crawl with their health, as its workers share it: those whose state changed last come first."""
        return self._session.run(ask(proxies.proxies(self._session.layout.keys, limit)))

    def order(self, worker: str, order: WorkerOrder) -> bool:
        """Order a worker to be ``quiet`` (claim nothing more), to ``stop`` (drain and leave), or to ``work`` again.

        The worker reads the order within some seconds. Returns False if there is no worker of this name.
        """
        answer = self._session.run(ask(workers.order(self._session.layout.keys, worker, workers.check_order(order))))
        return answer != "unknown"

    def history(self, *, since: float = 3600.0, step: float | None = None) -> list[Point]:
        """Return what was done in the last *since* seconds, up to a day, in steps of *step* seconds, oldest first.

        The last hour is kept in steps of 10 seconds, the day in steps of 5 minutes; a larger *step* sums them up.
        """
        return self._session.run(history.history(self._session.layout, since, step))

    def handlers(self) -> dict[str, HandlerCounts]:
        """Return what was done since the crawl began, by handler (in Scrapy: by callback), those with the most pages first.

        Up to 50 handlers are counted apart, and further ones together as ``(others)``.
        """
        return self._session.run(ask(history.handlers(self._session.layout.keys)))

    def tasks(self) -> list[TaskState]:
        """Return the tasks of the crawl by name, those with the most calls first: what waits and runs, durations, next ticks.

        A task is known if a live worker has it or one of the last hour had it, or if a call of it waits. At most 100 are listed.
        """
        return self._session.run(task_states.tasks(self._session.layout))

    def demand(self) -> Demand:
        """Return how much work can be in progress now, and how long the oldest has waited. Looks at a sample of hosts."""
        return self._session.run(stats.demand(self._session.layout))

    def fsck(self, *, repair: bool = False) -> FsckReport:
        """Check the crawl for damage; with *repair*, repair it. Takes many short calls, so that the server stays responsive."""
        return self._session.run(fsck.fsck(self._session.layout, repair=repair))

    def explain(
        self,
        request: str | Request,
        *,
        agent: str | None = None,
        attempts: int | None = None,
        identities: Sequence[bytes] = (),
    ) -> Explanation:
        """Return where a request is, and why it is not crawled yet.

        *agent* is the user agent for robots.txt (default: the crawl's name); *attempts* is the most attempts a request gets;
        *identities* are others under which it may have been seen (see `Request.identity`).
        """
        return self._session.run(
            requests.explain(self._session.layout, request, self._session.now(), agent, attempts, identities)
        )

    def requests(
        self, state: ListedState = "ready", *, host: str | None = None, limit: int = 100, after: str = ""
    ) -> RequestPage:
        """List the requests that are ready, delayed or leased, of the crawl or of one *host*, up to *limit* (at most 1,000).

        Pass the `after` of a page to get the next one. Delayed and leased requests are sorted by time, per shard; ready ones are
        listed host by host, in the order of each queue. While the crawl is running, requests that move meanwhile may be missing, or
        occur twice.
        """
        return self._session.run(
            requests.requests(self._session.layout, state, host, limit, after, self._session.now())
        )

    def drop(self, ids: Iterable[str]) -> int:
        """Drop ready or delayed requests, given their ids of `requests`. Their URLs stay seen.

        Returns how many; requests that have moved on since they were listed are not dropped.
        """
        return self._session.run(requests.change_listed(self._session.layout, "drop", ids))

    def promote(self, ids: Iterable[str]) -> int:
        """Make delayed requests claimable now, given their ids of `requests`: they move to the front of their queues.

        Returns how many; requests that have moved on since they were listed are not promoted.
        """
        return self._session.run(requests.change_listed(self._session.layout, "promote", ids))

    def audit(self, *, limit: int = 100) -> list[AuditEntry]:
        """Return the actions of operators, newest first. The last 1,000 are kept."""
        return self._session.run(ask(audit.read_audit(self._session.layout.keys.audit, limit)))

    def pause(self, host: str | None = None) -> None:
        """Stop handing out requests, of the crawl or of one host, until `resume`. This takes effect at once for all workers."""
        if host is None:
            self._session.run(lifecycle.set_state(self._session.layout, "paused"))
        else:
            self.set_host(host, paused=True)

    def resume(self, host: str | None = None) -> None:
        """Hand out requests again, of the crawl or of one host."""
        if host is None:
            self._session.run(lifecycle.set_state(self._session.layout, "open"))
        else:
            self.set_host(host, paused=False)

    def cancel(self, host: str | None = None) -> int:
        """Drop all waiting requests, of the crawl (which then ends for good) or of one host. Returns how many."""
        if host is None:
            return self._session.run(lifecycle.cancel(self._session.layout))
        return self._session.run(lifecycle.discard(self._session.layout.shard_of(host), host))

    def remove(self) -> None:
        """Delete the crawl: all its requests, what it has seen, its settings and its name. This cannot be undone.

        Clients that still have it open get `UnknownCrawl`, this frontier too. Stop the workers first: a worker that starts again may
        create the crawl again.
        """
        self._session.run(lifecycle.remove(self._session.layout, self._session.overflow))

    def set_host(self, host: str, **pace: Unpack[HostArguments]) -> HostState:
        """Give one host its own politeness; None returns a field to the crawl's default.

        A *delay* takes precedence over robots.txt, and ends a slow-down.
        """
        words = host_words(pace)
        self._session.run(ask(hosts.set_host(self._session.layout.shard_of(host), host, words)))
        return self._session.run(hosts.host_state(self._session.layout, host))

    def run_options(self) -> RunOptions:
        """Return what `silkline run` has stored for all workers: where items go, and whether private addresses are allowed."""
        return self._session.run(ask(run_options(self._session.layout.keys)))

    def set_run_options(self, options: RunOptions) -> None:
        """Replace the stored run options, for all workers that join from now on."""
        self._session.run(ask(run_options(self._session.layout.keys, options)))

    def set_politeness(self, politeness: Politeness) -> None:
        """Change the politeness of the whole crawl, for all workers. Hosts with their own settings keep them.

        A host that is waiting does not wait longer for it, and no longer than the new delay.
        """
        self._session.layout = self._session.run(settings.set_politeness(self._session.layout, politeness))

    def set_budget(self, budget: Budget) -> None:
        """Raise, lower or remove the budget of the crawl, also while workers are running. It is never exceeded.

        Done and leased pages count. A lower limit stops the crawl at once; leased pages may still complete. Pages per host can be
        limited only if the crawl had such a limit before its first page was claimed. Other clients apply a new depth when they
        call `SyncFrontier.refresh`.
        """
        self._session.layout = self._session.run(settings.set_budget(self._session.layout, budget))

    def set_capacity(self, capacity: int) -> None:
        """Set how many requests may wait before the crawl is full."""
        self._session.layout = self._session.run(settings.set_capacity(self._session.layout, check_capacity(capacity)))

    def set_dead_limit(self, limit: int) -> None:
        """Set how many dead letters the crawl keeps, 0 for all. The oldest ones beyond a lower limit are deleted at once.

        Their URLs stay seen, and they count as discarded and in `Stats.dead_dropped`.
        """
        self._session.layout = self._session.run(settings.set_dead_limit(self._session.layout, check_dead_limit(limit)))
