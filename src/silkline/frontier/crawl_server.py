"""All crawls of a server. `CrawlServer` shares one connection between them; the functions open one for each call.

One connection is at most two sockets per node (`transport/clients.py`). The dashboard uses one `CrawlServer`.
A crawl that a later version has stored, or that is damaged, must not hide the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from silkline.core.url import parse
from silkline.errors import FrontierError, SilklineError, StoreUnavailable, UnknownCrawl
from silkline.frontier.admin_verbs import audit
from silkline.frontier.admin_verbs import stats as stat_verbs
from silkline.frontier.admin_verbs.audit import AuditEntry
from silkline.frontier.admin_verbs.dead_letters import DeadGroup, dead_groups
from silkline.frontier.admin_verbs.requests import locate
from silkline.frontier.admin_verbs.stats import CrawlStatus, Stats, snapshot
from silkline.frontier.arguments import embedded_in
from silkline.frontier.embedded.server import EmbeddedServer
from silkline.frontier.frontier import DEFAULT_LEASE, Frontier
from silkline.frontier.store.keys import AUDIT, SESSIONS, CrawlKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.store.settings import Settings
from silkline.frontier.transport.command import Command, Flow, ask, load
from silkline.frontier.transport.connection import AsyncConnection
from silkline.frontier.transport.redis_url import read_url
from silkline.frontier.transport.server_info import Memory, ServerInfo, check_server
from silkline.frontier.transport.sync.connection import SyncConnection, drive
from silkline.frontier.verbs import hosts as host_verbs
from silkline.frontier.verbs import workers as worker_verbs
from silkline.frontier.verbs.hosts import HostState, enough_hosts, most_cpu_first
from silkline.frontier.verbs.lifecycle import diagnose, open_crawl, read_settings, register
from silkline.frontier.verbs.robots import RobotsFile, origin_of, robots_command
from silkline.frontier.verbs.workers import WorkerState

T = TypeVar("T")
R = TypeVar("R")
ASKED_TOGETHER = 200
"""Number of crawls whose commands are sent together."""
COSTLY = 0.02
"""A host is costly if its pages take at least this many CPU seconds on average."""
WATCHED_HOSTS = 300
"""Number of hosts among which the longest queues are searched, for a live display."""
WATCHED_WORKERS = 100
SAMPLED_HOSTS = 5
"""Number of the longest queues from which requests are sampled, to measure their size."""
NOT_AS_STORED = (LookupError, ValueError, TypeError, msgspec.MsgspecError)
"""Errors raised when stored data is not in the form that Silkline writes."""


class CrawlServer:
    """The crawls of a server. Its frontiers share its connection: close the `CrawlServer`, never one of them."""

    def __init__(self, connection: AsyncConnection, embedded: EmbeddedServer | None) -> None:
        self._connection = connection
        self._embedded = embedded

    @classmethod
    async def open(cls, url: str | None = None) -> Self:
        """Connect to the server at *url*, or to the embedded one."""
        embedded = await asyncio.to_thread(EmbeddedServer.join, directory) if (directory := embedded_in(url)) else None
        connection = None
        try:
            target = read_url(embedded.url if embedded else str(url))
            connection = AsyncConnection(target, ensure_server=embedded.ensure if embedded else None)
            await connection.start()
            check_server(connection.server, connection.target.public)
        except BaseException:
            if connection:
                await connection.close()
            if embedded:
                await asyncio.to_thread(embedded.leave)
            raise
        return cls(connection, embedded)

    @property
    def where(self) -> str:
        """The address of the server, without its password."""
        return self._connection.target.public

    async def names(self) -> list[str]:
        return await self._connection.call(register(""))

    async def frontier(self, name: str) -> Frontier:
        """Return the crawl of this name, as it is stored now. Raises `UnknownCrawl` if there is none."""
        keys = CrawlKeys(name)
        stored = await self._connection.call(read_settings(keys))
        if not stored:
            raise UnknownCrawl(f"there is no crawl {name} on {self.where}")
        settings = Settings.decode(stored)
        self._connection.set_durability(name, settings.durability)
        return Frontier(self._connection, CrawlLayout(keys, settings), DEFAULT_LEASE, None, None)

    async def each(self, names: Sequence[str], ask: Callable[[Frontier], Awaitable[T]]) -> dict[str, T | SilklineError]:
        """Return the result of *ask* for each crawl, by name, or the error if the crawl cannot be read."""
        answers = await asyncio.gather(*(self._ask(name, ask) for name in names))
        return dict(zip(names, answers, strict=True))

    async def _ask(self, name: str, ask: Callable[[Frontier], Awaitable[T]]) -> T | SilklineError:
        try:
            return await ask(await self.frontier(name))
        except (SilklineError, *NOT_AS_STORED) as error:
            if isinstance(error, StoreUnavailable):
                await self.names()  # raises if the server is unavailable, rather than the crawl damaged
            return unreadable(name, error)

    async def shards(self, frontier: Frontier) -> list[dict[str, str]]:
        """The ledger of every shard of a crawl."""
        return await self._connection.call_all([snapshot(keys) for keys in frontier.layout.shards])

    async def robots(self, frontier: Frontier, url: str) -> RobotsFile:
        """Return the stored robots.txt of the origin of *url*, without taking on its fetch."""
        address = parse(url)
        return await self._connection.call(
            robots_command(frontier.layout.shard_of(address.host), origin_of(address), 0)
        )

    async def note_removal(self, by: str, crawl: str) -> None:
        await self._connection.call(audit.append_audit(AUDIT, by, "remove", crawl))

    async def removals(self, limit: int) -> list[AuditEntry]:
        """Who removed which crawls, the newest first."""
        return await self._connection.call(audit.read_audit(AUDIT, limit))

    async def end_session(self, session: str, seconds: float) -> None:
        """Note for all dashboards of this server that a session has ended."""
        await self._connection.call(end_session(session, round(seconds * 1000)))

    async def session_has_ended(self, session: str) -> bool:
        return await self._connection.call(end_session(session, None))

    async def memory(self) -> Memory:
        return await self._connection.memory()

    async def examine(self) -> list[ServerInfo]:
        """Return the information of each node."""
        return await self._connection.server_info()

    async def close(self) -> None:
        await self._connection.close()
        if self._embedded:
            await asyncio.to_thread(self._embedded.leave)


def end_session(session: str, keep_ms: int | None) -> Command[bool]:
    """End a session of the dashboard; with None, only return whether it has ended."""
    return Command(load("end_session"), (SESSIONS,), (session, "" if keep_ms is None else keep_ms), bool)


@contextmanager
def connected(url: str | None = None, *, checked: bool = True) -> Iterator[SyncConnection]:
    """Yield a connection to the server at *url*, or to the embedded server.

    With *checked*, raise an error for a server that cannot give Silkline's guarantees.
    """
    embedded = EmbeddedServer.join(directory) if (directory := embedded_in(url)) else None
    try:
        connection = SyncConnection(read_url(embedded.url if embedded else str(url)))
        try:
            connection.start()
            if checked:
                check_server(connection.server, connection.target.public)
            yield connection
        finally:
            connection.close()
    finally:
        if embedded:
            embedded.leave()


def crawl_names(url: str | None = None) -> list[str]:
    """Return the names of all crawls of a server."""
    with connected(url) as connection:
        return connection.call(register(""))


def status_of_all(connection: SyncConnection) -> dict[str, CrawlStatus | SilklineError]:
    """Return the status of all crawls, on an open connection."""
    names = connection.call(register(""))
    return ask_crawls(connection, names, stat_verbs.status)


def workers_of_all(url: str | None, most: int) -> dict[str, list[WorkerState] | SilklineError]:
    """Return the workers of each crawl, at most as many of a crawl."""
    with connected(url) as connection:
        names = connection.call(register(""))
        return ask_crawls(connection, names, lambda layout: ask(worker_verbs.workers(layout.keys, most)))


def ask_crawls(
    connection: SyncConnection, names: Sequence[str], ask: Callable[[CrawlLayout], Flow[R]]
) -> dict[str, R | SilklineError]:
    """Run a flow on many crawls at a time. Return the results by name, or the error of a crawl that cannot be read; removed crawls are left out."""
    found: dict[str, R | SilklineError] = {}
    for start in range(0, len(names), ASKED_TOGETHER):
        some = names[start : start + ASKED_TOGETHER]
        try:
            found |= _ask_together(connection, some, ask)
        except (SilklineError, *NOT_AS_STORED):  # one of them cannot be read
            found |= _ask_one_by_one(connection, some, ask)
    return found


def _ask_together(
    connection: SyncConnection, names: Sequence[str], ask: Callable[[CrawlLayout], Flow[R]]
) -> dict[str, R]:
    """Run a flow per crawl in lockstep: their next commands are sent together."""
    stored = connection.call_all([read_settings(CrawlKeys(name)) for name in names])
    layouts = [
        CrawlLayout(CrawlKeys(name), Settings.decode(one)) for name, one in zip(names, stored, strict=True) if one
    ]
    flows = {layout.keys.crawl: ask(layout) for layout in layouts}
    done: dict[str, R] = {}
    answers: dict[str, Any] = dict.fromkeys(flows)
    while answers:
        asked: dict[str, Any] = {}
        for name, answer in answers.items():
            try:
                asked[name] = flows[name].send(answer)
            except StopIteration as stop:
                done[name] = stop.value
        answers = _answer_together(connection, asked)
    return done


def _answer_together(connection: SyncConnection, asked: dict[str, Any]) -> dict[str, Any]:
    """Send the next command or commands of every flow together; return the replies by crawl."""
    lists = {name: effect if isinstance(effect, tuple) else (effect,) for name, effect in asked.items()}
    replies = iter(connection.call_all([command for some in lists.values() for command in some]))
    found = {name: [next(replies) for _ in some] for name, some in lists.items()}
    return {name: found[name] if isinstance(effect, tuple) else found[name][0] for name, effect in asked.items()}


def _ask_one_by_one(
    connection: SyncConnection, names: Sequence[str], ask: Callable[[CrawlLayout], Flow[R]]
) -> dict[str, R | SilklineError]:
    found: dict[str, R | SilklineError] = {}
    for name in names:
        try:
            found |= _ask_together(connection, [name], ask)
        except (SilklineError, *NOT_AS_STORED) as error:
            if isinstance(error, StoreUnavailable):
                connection.call(register(""))  # raises if the server is unavailable
            found[name] = unreadable(name, _diagnosed(connection, name, error))
    return found


def _diagnosed(connection: SyncConnection, name: str, error: Exception) -> Exception:
    """Return a more specific error for a crawl that a script did not find, or *error* itself."""
    stored = connection.call(read_settings(CrawlKeys(name))) if isinstance(error, UnknownCrawl) else None
    if stored:
        try:
            drive(connection, diagnose(CrawlLayout(CrawlKeys(name), Settings.decode(stored))))
        except SilklineError as damage:
            return damage
    return error


class CrawlDetail(NamedTuple):
    """Details of one crawl, for a live display."""

    hosts: list[HostState]
    reasons: list[DeadGroup]
    workers: list[WorkerState]
    paused_by: AuditEntry | None


def crawl_detail(connection: SyncConnection, crawl: str, most: int) -> CrawlDetail:
    """Return the busiest hosts, the dead letters by reason, and the workers of a crawl."""
    keys = CrawlKeys(crawl)
    stored = connection.call(read_settings(keys))
    if not stored:
        raise UnknownCrawl(f"the crawl {crawl!r} no longer exists on this server")
    layout = CrawlLayout(keys, Settings.decode(stored))
    hosts = drive(connection, host_verbs.hosts(layout, enough_hosts(layout, most, WATCHED_HOSTS), ()))
    reasons = drive(connection, dead_groups(layout, "reason", most))
    workers = connection.call(worker_verbs.workers(keys, WATCHED_WORKERS))
    done = connection.call(audit.read_audit(keys.audit, 100))
    return CrawlDetail(_shown(hosts, most), reasons, workers, audit.who_paused(done))


def _shown(hosts: list[HostState], most: int) -> list[HostState]:
    """Return the longest queues; the last two places are for the most costly hosts, if there are any."""
    costly = [host for host in hosts[most - 2 :] if host.answers and host.answers.cpu_each >= COSTLY]
    costliest = sorted(costly, key=most_cpu_first)[:2]
    rest = [host for host in hosts if host not in costliest]
    return sorted(rest[: most - len(costliest)] + costliest, key=hosts.index)


def note_removal(url: str | None, by: str, crawl: str) -> None:
    """Record in the audit log of the server who removed a crawl: the log of the crawl was deleted with it."""
    with connected(url) as connection:
        connection.call(audit.append_audit(AUDIT, by, "remove", crawl))


def removals(url: str | None, limit: int) -> list[AuditEntry]:
    """Return the audit entries of removed crawls, newest first."""
    with connected(url) as connection:
        return connection.call(audit.read_audit(AUDIT, limit))


class CrawlWeight(NamedTuple):
    """Measurements of a live crawl, for estimates of its memory."""

    stats: Stats
    settings: Settings
    hosts: int
    """Number of hosts with requests."""
    payload: float
    """Average bytes of a stored request, over a sample of queued requests; 0 if none is queued."""
    used: int
    """Bytes used by the server, for all crawls."""
    crawls: int
    answered: int
    """Number of hosts with recorded responses."""
    compressed: bool
    """Whether the server compresses the middle of long queues, as far as its configuration can be read."""


def measure_crawl(url: str | None, crawl: str) -> CrawlWeight:
    """Measure a crawl, a sample of its requests, and the memory of its server."""
    with connected(url) as connection:
        layout = drive(connection, open_crawl(CrawlKeys(crawl), {}, {}, create=False))
        stats = drive(connection, stat_verbs.stats(layout))
        snapshots = [connection.call(snapshot(keys)) for keys in layout.shards]
        hosts = sum(int(one["hosts_ready"]) + int(one["hosts_waiting"]) for one in snapshots)
        busiest = drive(connection, host_verbs.hosts(layout, SAMPLED_HOSTS, ()))
        sizes = [size for host in busiest[:SAMPLED_HOSTS] for size in _sizes(connection, layout, host.host)]
        names = connection.call(register(""))
        payload = sum(sizes) / len(sizes) if sizes else 0.0
        answered = sum(int(one["hosts_answered"]) for one in snapshots)
        depths = {node.config.get("list-compress-depth", "0") for node in connection.server_info()}
        used = connection.used_memory()
        return CrawlWeight(stats, layout.settings, hosts, payload, used, len(names), answered, "0" not in depths)


def _sizes(connection: SyncConnection, layout: CrawlLayout, host: str) -> list[int]:
    """Return the sizes of the first requests in the queue of a host."""
    _, found = connection.call(locate(layout.shard_of(host), "queue", 0, ("", ""), host, 0))
    return [len(item) for _, _, item in found]


def unreadable(name: str, error: Exception) -> SilklineError:
    """Return the error to report for a crawl; *error* is a `SilklineError` or one of `NOT_AS_STORED`."""
    if isinstance(error, SilklineError):
        return error
    return FrontierError(
        f"its stored data is damaged ({type(error).__name__}: {error}); check it with: silkline fsck {name}"
    )
