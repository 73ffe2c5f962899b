"""Flows that look: counts and hosts; and the one that forgets."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec

from silkline.core.request import Request, mark_of
from silkline.core.url import Address, parse
from silkline.frontier import commands
from silkline.frontier.commands import MAX_BATCH
from silkline.frontier.effects import Flow, ask, ask_all
from silkline.frontier.host_state import HostState
from silkline.frontier.keys import ShardKeys
from silkline.frontier.plan import Plan
from silkline.frontier.seen import expected_skips, member
from silkline.frontier.settings import OPEN_AGAIN

STATES = ("ready", "delayed", "leased", "done", "dead", "discarded")
"""Where every accepted request is; fields of `Stats`."""
LOOKED_AT = 1000
"""Hosts among which those with the most requests are sought; more would keep the server busy for too long."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl in numbers. accepted = ready + delayed + leased + done + dead + discarded, always."""

    crawl: str
    state: str
    shards: int
    accepted: int
    ready: int
    delayed: int
    leased: int
    done: int
    dead: int
    discarded: int
    seen: int
    overflow: int
    rescued: int
    late: int = 0
    """Endings that were refused, because the request was somebody else's by then."""
    duplicates: int = 0
    """Offers that the seen filter knew already."""
    turned_away: int = 0
    """Offers that found no room."""
    full: bool
    capacity: int
    hosts_ready: int
    hosts_waiting: int
    expected_skips: float
    """URLs that the seen filter has wrongly taken for seen, on average."""

    @property
    def pending(self) -> int:
        return self.ready + self.delayed

    @property
    def conserved(self) -> bool:
        """Whether every accepted request is somewhere. Only meaningful while nothing moves between two shards' counts."""
        return self.accepted == self.pending + self.leased + self.done + self.dead + self.discarded


def stats(plan: Plan) -> Flow[Stats]:
    shards = yield from _snapshots(plan)
    overflow = yield from ask(commands.note(plan.keys))
    settings = plan.settings
    seen = _total(shards, "seen_count")
    return Stats(
        crawl=plan.keys.crawl,
        state=shards[0]["state"],
        shards=settings.shards,
        accepted=_total(shards, "accepted"),
        ready=_total(shards, "queued"),
        delayed=_total(shards, "delayed"),
        leased=_total(shards, "leased"),
        done=_total(shards, "done"),
        dead=_total(shards, "dead"),
        discarded=_total(shards, "discarded"),
        seen=seen,
        overflow=sum(overflow.values()),
        rescued=_total(shards, "rescued"),
        late=_total(shards, "late"),
        duplicates=_total(shards, "duplicates"),
        turned_away=_total(shards, "turned_away"),
        full=any(_is_full(shard) for shard in shards),
        capacity=settings.capacity,
        hosts_ready=_total(shards, "hosts_ready"),
        hosts_waiting=_total(shards, "hosts_waiting"),
        expected_skips=expected_skips(settings.seen, seen),
    )


def _is_full(shard: dict[str, str]) -> bool:
    """The scripts take note that there is room again only when they are offered something."""
    pending = int(shard["queued"]) + int(shard["delayed"])
    return shard["full"] == "1" and pending > int(shard["capacity"]) * OPEN_AGAIN


def _snapshots(plan: Plan) -> Flow[list[dict[str, str]]]:
    return (yield from ask_all(commands.snapshot(keys) for keys in plan.shards))


def _total(shards: Sequence[dict[str, str]], name: str) -> int:
    return sum(int(shard[name]) for shard in shards)


def finished(plan: Plan) -> Flow[bool]:
    """Nothing is left to do, on no shard, and nothing moved between two looks.

    A link to another shard is stored before its page completes, so one look can be fooled: it may see the link's shard
    before the link and the page's shard after the page. Two looks with equal counts of moves cannot.
    """
    first = yield from _snapshots(plan)
    if not _nothing_left(plan, first):
        return False
    overflow = yield from ask(commands.note(plan.keys))
    if any(overflow.values()) and not _pages_spent(plan, first):
        return False
    second = yield from _snapshots(plan)
    same = all(one["moves"] == two["moves"] for one, two in zip(first, second, strict=True))
    return same and _nothing_left(plan, second)


def _nothing_left(plan: Plan, shards: Sequence[dict[str, str]]) -> bool:
    if _total(shards, "leased"):
        return False
    return _total(shards, "queued") + _total(shards, "delayed") == 0 or _pages_spent(plan, shards)


def _pages_spent(plan: Plan, shards: Sequence[dict[str, str]]) -> bool:
    budget = plan.settings.budget.pages
    return budget is not None and _total(shards, "done") >= budget


def hosts(plan: Plan, limit: int, named: Sequence[str]) -> Flow[list[HostState]]:
    """The hosts named, or the first *limit*: those with the most requests before the others."""
    if named:
        rows = yield from ask_all(commands.hosts(plan.shard_of(host), 1, (host,)) for host in named)
        return [states[0] for states in rows]
    found = yield from ask_all(commands.hosts(keys, limit, ()) for keys in plan.shards)
    everything = (state for states in found for state in states)
    return heapq.nsmallest(limit, everything, key=lambda state: (-state.queued, state.host))


def enough_hosts(plan: Plan, least: int, among: int = LOOKED_AT) -> int:
    """How many to ask `hosts` for, if the longest queues are sought: every shard tells so many, and all together *among*."""
    return max(least, among // plan.settings.shards)


def host_state(plan: Plan, host: str) -> Flow[HostState]:
    return (yield from ask(commands.hosts(plan.shard_of(host), 1, (host,))))[0]


def forget(plan: Plan, items: Sequence[str | Request]) -> Flow[int]:
    """Forget that these were seen; answers how many had been."""
    by_shard: dict[ShardKeys, list[str]] = {}
    for item in items:
        request = item if isinstance(item, Request) else Request(item)
        address = parse(request.url)
        by_shard.setdefault(plan.shard_of(address.host), []).append(member_of(plan, request, address))
    batches = [
        commands.forget(keys, members[i : i + MAX_BATCH])
        for keys, members in by_shard.items()
        for i in range(0, len(members), MAX_BATCH)
    ]
    return sum((yield from ask_all(batches)))


def member_of(plan: Plan, request: Request, address: Address) -> str:
    mark = mark_of(request, address, seed=plan.settings.seed)
    return member(mark, plan.settings.seen.kind)
