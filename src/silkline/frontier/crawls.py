"""What a server holds, asked without naming a crawl."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from silkline.core.errors import SilklineError, StoreUnavailable, UnknownCrawl
from silkline.frontier import acts, commands, dead_letters, inspection, roster
from silkline.frontier.acts import Act
from silkline.frontier.address import read_url
from silkline.frontier.connection import SyncConnection
from silkline.frontier.dead_letters import DeadGroup
from silkline.frontier.embedded import EmbeddedServer
from silkline.frontier.flows import open_crawl
from silkline.frontier.host_state import HostState
from silkline.frontier.inspection import Stats
from silkline.frontier.keys import AUDIT, CrawlKeys
from silkline.frontier.plan import Plan
from silkline.frontier.roster import WorkerState
from silkline.frontier.server import check_server
from silkline.frontier.settings import Settings
from silkline.frontier.sync import drive
from silkline.frontier.unreadable import NOT_AS_STORED, unreadable
from silkline.frontier.wishes import embedded_in

WATCHED_HOSTS = 300
"""Hosts among which those with the longest queues are sought, while somebody watches."""
WATCHED_WORKERS = 100
SAMPLED_HOSTS = 5
"""Of the longest queues so many are looked into, to see how large requests are."""


@contextmanager
def visit(url: str | None = None, *, checked: bool = True) -> Iterator[SyncConnection]:
    """A connection to the server at *url*, or to the embedded one, for as long as the block lasts.

    A server on which our promises cannot be kept is refused, unless it is not to be *checked*.
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
    """The names of all crawls of a server."""
    with visit(url) as connection:
        return connection.call(commands.register(""))


def list_crawls(url: str | None = None) -> dict[str, Stats | SilklineError]:
    """All crawls of a server in numbers, by name; of one that cannot be read, the error."""
    with visit(url) as connection:
        return count_all(connection)


def count_all(connection: SyncConnection) -> dict[str, Stats | SilklineError]:
    """The same on a connection that is there."""
    found: dict[str, Stats | SilklineError] = {}
    for name in connection.call(commands.register("")):
        try:
            stats = _count(connection, CrawlKeys(name))
        except (SilklineError, *NOT_AS_STORED) as error:
            if isinstance(error, StoreUnavailable):
                connection.call(commands.register(""))  # fails if it is the server that is gone
            found[name] = unreadable(name, error)
        else:
            if stats:
                found[name] = stats
    return found


class Detail(NamedTuple):
    """More of one crawl, for those who watch it."""

    hosts: list[HostState]
    reasons: list[DeadGroup]
    workers: list[WorkerState]
    paused_by: Act | None


def look_closer(connection: SyncConnection, crawl: str, most: int) -> Detail:
    """Its busiest hosts, why its requests died, who works on it."""
    keys = CrawlKeys(crawl)
    stored = connection.call(commands.read_settings(keys))
    if not stored:
        raise UnknownCrawl(f"there is no crawl named {crawl!r} on this server any more")
    plan = Plan(keys, Settings.decode(stored))
    hosts = drive(connection, inspection.hosts(plan, inspection.enough_hosts(plan, most, WATCHED_HOSTS), ()))
    reasons = drive(connection, dead_letters.dead_groups(plan, "reason", most))
    workers = connection.call(roster.workers(keys, WATCHED_WORKERS))
    done = connection.call(acts.audit(keys.audit, 100))
    return Detail(hosts[:most], reasons, workers, acts.who_paused(done))


def _count(connection: SyncConnection, keys: CrawlKeys) -> Stats | None:
    """None for a crawl that is listed but no longer there."""
    stored = connection.call(commands.read_settings(keys))
    return drive(connection, inspection.stats(Plan(keys, Settings.decode(stored)))) if stored else None


def note_removal(url: str | None, by: str, crawl: str) -> None:
    """Note who removed a crawl; with it went its own audit."""
    with visit(url) as connection:
        connection.call(acts.note_act(AUDIT, by, "remove", crawl))


def removals(url: str | None, limit: int) -> list[Act]:
    """Who removed which crawls of a server, the newest first."""
    with visit(url) as connection:
        return connection.call(acts.audit(AUDIT, limit))


class Weight(NamedTuple):
    """A live crawl, for those who estimate what crawls weigh."""

    stats: Stats
    settings: Settings
    hosts: int
    """Those that have requests."""
    payload: float
    """Bytes of a stored request, on average over a sample of those that wait; 0 if none does."""
    used: int
    """Bytes that the data of the server takes, of all crawls."""
    crawls: int
    answered: int
    """Hosts whose answers are kept."""
    compressed: bool
    """Whether the server, as far as it tells, compresses the middle of long queues."""


def weigh_crawl(url: str | None, crawl: str) -> Weight:
    """Look at a crawl, at a sample of its requests, and at the memory of its server."""
    with visit(url) as connection:
        plan = drive(connection, open_crawl(CrawlKeys(crawl), {}, {}, create=False))
        stats = drive(connection, inspection.stats(plan))
        snapshots = [connection.call(commands.snapshot(keys)) for keys in plan.shards]
        hosts = sum(int(one["hosts_ready"]) + int(one["hosts_waiting"]) for one in snapshots)
        busiest = drive(connection, inspection.hosts(plan, SAMPLED_HOSTS, ()))
        sizes = [size for host in busiest[:SAMPLED_HOSTS] for size in _sizes(connection, plan, host.host)]
        names = connection.call(commands.register(""))
        payload = sum(sizes) / len(sizes) if sizes else 0.0
        answered = sum(int(one["hosts_answered"]) for one in snapshots)
        depths = {node.config.get("list-compress-depth", "0") for node in connection.examine()}
        used = connection.used_memory()
        return Weight(stats, plan.settings, hosts, payload, used, len(names), answered, "0" not in depths)


def _sizes(connection: SyncConnection, plan: Plan, host: str) -> list[int]:
    """Of the first requests in a host's queue."""
    _, found = connection.call(commands.locate(plan.shard_of(host), "queue", 0, ("", ""), host, 0))
    return [len(item) for _, _, item in found]
