"""FrontierInternals, which is `Frontier.internal`: what Silkline's own processes tell each other through a crawl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from silkline.core.histogram import Histogram
from silkline.core.lease import Lease
from silkline.core.proxy_health import ProxyReply, ProxyReport
from silkline.core.request import Request
from silkline.frontier.admin_verbs import audit, requests, settings
from silkline.frontier.admin_verbs.dead_letters import CANCELLED_CALL, add_dead
from silkline.frontier.session import CrawlSession
from silkline.frontier.transport.command import ask
from silkline.frontier.transport.server_info import Memory, out_of_memory
from silkline.frontier.verbs import claim, enqueue, groups, lifecycle, proxies, results, sessions, settle, workers
from silkline.frontier.verbs.claim import StartReport
from silkline.frontier.verbs.enqueue import Tick
from silkline.frontier.verbs.groups import GroupState, Joined, Opened
from silkline.frontier.verbs.history import Counts, HandlerNumbers, Levels, add_history
from silkline.frontier.verbs.hosts import StatusCounts, add_answers
from silkline.frontier.verbs.results import CallProgress
from silkline.frontier.verbs.sessions import SessionReply
from silkline.frontier.verbs.workers import DEFAULT_EXPIRY, WorkerOrder


class FrontierInternals:
    """What Silkline's own processes tell each other through a crawl. Not part of the public API: it may change in any version.

    Workers register and report what they did; the dashboard and the command line log the actions of operators and read the state
    of the server.
    """

    def __init__(self, session: CrawlSession) -> None:
        self._session = session

    async def join(self, worker: str, *, info: Mapping[str, Any] | None = None, expires: float = DEFAULT_EXPIRY) -> int:
        """Register *worker* as working on this crawl, for *expires* seconds. Returns how many others do.

        *info* is a small mapping that is shown to operators. None keeps the last one.
        """
        self._session.tally.worker = True
        return await self._session.run(ask(workers.join(self._session.layout.keys, worker, expires, info)))

    async def leave(self, worker: str, *, shut: bool = False) -> int:
        """Unregister *worker*. Returns how many others work on this crawl.

        With *shut*, if there are none, no worker can join any more: remove the crawl (`CrawlAdmin.remove`), and it can be created again.
        """
        return await self._session.run(ask(workers.leave(self._session.layout.keys, worker, shut=shut)))

    async def remove_unused(self, creator: str, *, added: int, seen: int) -> bool:
        """Remove the crawl if no other process uses it. Returns whether it was removed.

        *creator* has enqueued *added* requests, and *seen* others were duplicates. A request that another process enqueues meanwhile
        is not lost: it is refused with an error, or the crawl stays.
        """
        session = self._session
        return await session.run(
            lifecycle.remove_unused(session.layout, session.overflow, creator, added=added, seen=seen)
        )

    async def ordered(self, worker: str) -> WorkerOrder:
        """Return the order that a worker has; ``work`` if it has none."""
        answer: Any = await self._session.run(ask(workers.order(self._session.layout.keys, worker, "")))
        return "work" if answer == "unknown" else answer

    async def add_history(
        self, counts: Counts, levels: Levels | None = None, by_handler: HandlerNumbers | None = None
    ) -> None:
        """Add to the crawl's history what was done since the last call, and the *levels* of the crawl if they were read."""
        self._session.tally.worker = True
        await self._session.run(ask(add_history(self._session.layout.keys, counts, levels, by_handler)))

    @property
    def waits(self) -> Counts:
        """How long the requests had waited that this frontier has claimed. A worker adds them to the counts that it reports."""
        return Counts().add(self._session.tally.waits)

    async def add_answers(self, answers: Mapping[str, StatusCounts]) -> None:
        """Add HTTP status counts, by host. Counts decay over time; at most 100,000 hosts are kept. `CrawlAdmin.hosts` returns them."""
        await self._session.run(add_answers(self._session.layout, answers))

    async def share_proxies(
        self, worker: str, since: int, rests: tuple[float, float], reports: Sequence[ProxyReport] = ()
    ) -> ProxyReply:
        """Store what *worker*, a short random name, reports about its proxies. Returns what has changed *since* that number.

        *rests* are the first and the longest rest of a proxy that fails, in seconds.
        """
        return await self._session.run(proxies.share_proxies(self._session.layout.keys, worker, since, rests, reports))

    async def started(self, starts: Sequence[StartReport]) -> dict[Lease, float]:
        """Report when pages started: their hosts open one delay after that, and not only when the slack of the claim has passed.

        Hosts that were claimed again since then are not changed. Returns the delays of the others in seconds, by lease.
        """
        return await self._session.run(claim.started(self._session.layout, starts)) if starts else {}

    async def cancel_calls(self, ids: Iterable[str]) -> int:
        """Make waiting calls of tasks dead letters that were cancelled, given their ids of `CrawlAdmin.requests`. Returns how many."""
        layout = self._session.layout
        cancelled = await self._session.run(requests.change_listed(layout, "drop", ids, CANCELLED_CALL))
        if cancelled:
            await self.report_ended()
        return cancelled

    @property
    def now(self) -> float:
        """The time in seconds, by the clock that the frontier was opened with."""
        return self._session.now()

    async def open_group(self, request: Request, until: float, *, allow_failure: bool = False) -> Opened:
        """Store a call that waits until its group is closed and all calls of it have ended; at *until*, it becomes a dead letter.

        Without *allow_failure*, it also becomes one if a call of the group fails.
        """
        return await self._session.run(
            groups.open_group(self._session.layout, request, until, allow_failure=allow_failure)
        )

    async def watch(self, group: str, batch: str, names: Sequence[tuple[str, int]], until: float) -> bool:
        """Let a group wait for calls, given their names and numbers, before they are enqueued; 0 for *until* ends that.

        Returns False if there is no room for it.
        """
        return await self._session.run(groups.watch(self._session.layout, group, batch, names, until))

    async def join_group(self, group: str, batch: str = "", letters: str = "", following: str = "") -> Joined:
        """Add a batch of calls to a group after they were enqueued, a letter for each. Then ``close`` the group, or ``drop`` it."""
        return await self._session.run(groups.join_group(self._session.layout, group, batch, letters, following))

    async def group(self, name: str) -> GroupState | None:
        """Return the group of a call that waits; None if it does not wait (any more)."""
        return await self._session.run(groups.group_state(self._session.layout, name))

    async def groups(self, *, limit: int = 100) -> list[GroupState]:
        """Return calls of tasks that wait until other calls have ended, with the counts of these. Those that expire first come first."""
        return await self._session.run(groups.groups(self._session.layout, workers.check_limit(limit)))

    async def report_ended(self) -> int:
        """Report calls that have ended to the groups that wait for them, and end overdue groups. Returns how many groups have ended.

        The process that ends a call does this, too, but may die before. So workers do it every few seconds.
        """
        return await self._session.run(groups.report_all(self._session.layout, range(len(self._session.layout.shards))))

    async def hand_over(self, pairs: Sequence[tuple[Lease, Lease]]) -> None:
        """Report leases whose pages are downloaded and the leases in reserve of the same hosts that have started instead.

        Their places are handed over, in this order. Must be sent before a verdict on one of the first.
        """
        if pairs:
            await self._session.run(settle.hand_over(self._session.layout, pairs))

    async def add_dead(self, letters: Sequence[tuple[Request, str]]) -> bool:
        """Store requests as dead letters that were never enqueued, each with its reason: an operator can list and revive them.

        Returns False if the crawl is cancelled; then none is stored.
        """
        return await self._session.run(add_dead(self._session.layout, letters))

    async def tick(self, request: Request, schedule: str) -> Tick:
        """Enqueue a tick of a recurring task, which is not run before its *not_before*, and only read the time without one.

        Of each *schedule* of a task, only a tick that is newer than all before is added.
        """
        return await self._session.run(enqueue.tick(self._session.layout, request, schedule))

    async def report_progress(self, lease: Lease, done: float, note: str = "") -> bool:
        """Store how far a call of a task is, for an hour. Returns False if its lease is lost."""
        return await self._session.run(results.report_progress(self._session.layout, lease, done, note))

    async def progress(self, url: str) -> CallProgress | None:
        """Return the last progress of a call."""
        return await self._session.run(results.progress(self._session.layout, Request(url)))

    async def feed_position(self, feed: str, token: int = 0, position: bytes = b"") -> bytes:
        """Store how far a feed was read, by the reader with the fencing *token*. A reader whose lock was taken over stores nothing.

        Returns what is stored then; empty if nothing is. Without a *position*, it only reads.
        """
        return await self._session.run(ask(settings.feed_position(self._session.layout.keys, feed, token, position)))

    async def session_state(self, name: str, version: int = 0, login: int = 0, state: bytes = b"") -> SessionReply:
        """Store the state of a named session, or only read it. *version* is that of the state that the caller knows.

        A state is stored if no other worker has stored one since then, or if *login*, the fencing token of a login, is newer.
        """
        return await self._session.run(
            ask(sessions.session_state(self._session.layout.keys, name, version, login, state))
        )

    async def memory(self) -> Memory:
        """Return how much memory the server uses, and how much it may use."""
        return await self._session.connection.memory()

    async def cluster_state(self) -> str | None:
        """Return ok or fail; None if the server is no cluster, or the user may not ask."""
        return await self._session.connection.cluster_state()

    @property
    def memory_refusals(self) -> int:
        """How often the server has stored nothing for this frontier because it is out of memory. `enqueue` returns FULL then."""
        return self._session.connection.memory_refusals

    async def out_of_memory(self) -> str:
        """Return a clause about the server's lack of memory, and what to do."""
        return out_of_memory(await self.memory(), self._session.connection.target.public)

    @property
    def timings(self) -> dict[str, Histogram]:
        """Latencies of the calls of this frontier, by script, from sending to the reply. Recorded once this has been read."""
        return self._session.connection.timings

    async def append_audit(self, by: str, what: str, about: str = "") -> None:
        """Append an action of an operator to the audit log: *what* is a verb, *about* a host or a filter."""
        await self._session.run(ask(audit.append_audit(self._session.layout.keys.audit, by, what, about)))
