"""Flows that look: counts, hosts, dead letters, and why a page is not crawled."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from silkline.core.errors import SilklineError
from silkline.core.lease import Lease, State
from silkline.core.request import Request, fingerprint
from silkline.core.url import Address, parse
from silkline.frontier import codec, commands
from silkline.frontier.commands import MAX_BATCH, DeadLetter
from silkline.frontier.effects import Flow, ask, ask_all
from silkline.frontier.filters import DeadFilter
from silkline.frontier.host_state import HostState
from silkline.frontier.keys import ShardKeys
from silkline.frontier.plan import Plan
from silkline.frontier.seen import expected_skips, member
from silkline.frontier.settings import OPEN_AGAIN

DONE_TEXT = (
    "done: it was seen, and nothing of it waits any more; it completed, or was dropped by cancel, purge or a budget."
)


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


class Explanation(NamedTuple):
    """Where a request stands, in a word and in sentences."""

    state: State | None
    text: str
    host: HostState
    lease: Lease | None = None
    letter: DeadLetter | None = None


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


def host_state(plan: Plan, host: str) -> Flow[HostState]:
    return (yield from ask(commands.hosts(plan.shard_of(host), 1, (host,))))[0]


def dead(plan: Plan, chosen: DeadFilter, limit: int) -> Flow[list[DeadLetter]]:
    """Up to *limit* dead letters that match, newest first."""
    found: list[DeadLetter] = []
    for keys in _shards_of(plan, chosen):
        mine: list[DeadLetter] = []
        skip, looked = 0, MAX_BATCH
        while looked == MAX_BATCH and len(mine) < limit:
            looked, letters = yield from ask(commands.dead(keys, chosen, skip, MAX_BATCH))
            mine += letters
            skip += looked
        found += mine
    return heapq.nlargest(limit, found, key=lambda letter: letter.last)


def end_dead(plan: Plan, chosen: DeadFilter, *, purge: bool) -> Flow[int]:
    """Revive (or purge) all that match; answers how many."""
    total = 0
    for keys in _shards_of(plan, chosen):
        skip, looked = 0, MAX_BATCH
        while looked == MAX_BATCH:
            looked, ended = yield from ask(commands.revive(keys, chosen, skip, MAX_BATCH, purge=purge))
            total += ended
            skip += looked - ended
    return total


def _shards_of(plan: Plan, chosen: DeadFilter) -> Sequence[ShardKeys]:
    number = chosen.shard()
    if number is not None:
        return plan.shards[number : number + 1]
    return (plan.shard_of(chosen.host),) if chosen.host else plan.shards


def forget(plan: Plan, items: Sequence[str | Request]) -> Flow[int]:
    """Forget that these were seen; answers how many had been."""
    by_shard: dict[ShardKeys, list[str]] = {}
    for item in items:
        request = item if isinstance(item, Request) else Request(item)
        address = parse(request.url)
        by_shard.setdefault(plan.shard_of(address.host), []).append(_member(plan, request, address))
    batches = [
        commands.forget(keys, members[i : i + MAX_BATCH])
        for keys, members in by_shard.items()
        for i in range(0, len(members), MAX_BATCH)
    ]
    return sum((yield from ask_all(batches)))


def _member(plan: Plan, request: Request, address: Address) -> str:
    mark = fingerprint(address, request.method, request.body, seed=plan.settings.seed)
    return member(mark, plan.settings.seen.kind)


def explain(plan: Plan, item: str | Request) -> Flow[Explanation]:
    """Look for a request in every place it can be, and say what holds it back."""
    request = item if isinstance(item, Request) else Request(item)
    address = parse(request.url)
    keys = plan.shard_of(address.host)
    host = yield from host_state(plan, address.host)
    shard = yield from ask(commands.snapshot(keys))
    seen, lanes = yield from ask(commands.seen(keys, _member(plan, request, address), address.host))
    for part in _parts(address):
        search = _Search(plan, keys, request, address, part)
        for look in (search.leased, search.delayed, search.dead):
            found = yield from look(host)
            if found:
                return found
        for lane in lanes:
            found = yield from search.queued(host, lane, lanes)
            if found:
                return found._replace(text=found.text + held_back(shard["state"], host))
    if seen:
        return Explanation(State.DONE, DONE_TEXT, host)
    return Explanation(None, "never seen: nobody has enqueued it, or it was refused or forgotten.", host)


def _parts(address: Address) -> tuple[str, str]:
    """What the record of a request holds: the start of its path, or else an escape, where it was spelled otherwise."""
    return re.split("[?%]", address.path, maxsplit=1)[0], "%"


def clock_time(seconds: float) -> str:
    """A unix time as people read it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def held_back(crawl_state: str, host: HostState) -> str:
    if crawl_state != "open":
        return f" The crawl is {crawl_state}."
    if host.place == "waiting":
        return f" The host opens in {host.opens_in:.1f} s because {_why_it_waits(host)}."
    if host.place == "busy":
        return f" The host is at its cap of {host.concurrency} under way."
    if host.place == "paused":
        return " The host is paused."
    return " The host is open and waits for a worker."


def _why_it_waits(host: HostState) -> str:
    if host.blocked_until:
        return "it is blocked"
    if host.slowed_from is not None:
        return f"the site complained: its delay is {host.pace}"
    return f"of its delay of {host.pace}"


class _Search:
    """Looks for one request where requests can be, some thousand entries at a time."""

    def __init__(self, plan: Plan, keys: ShardKeys, request: Request, address: Address, part: str) -> None:
        self._keys = keys
        self._address = address
        self._wanted = _member(plan, request, address)
        self._plan = plan
        self._part = part

    def leased(self, host: HostState) -> Flow[Explanation | None]:
        def read(_: int, score: float, entry: bytes) -> Explanation | None:
            lease = commands.read_lease(entry, self._keys.number, 0, score)
            text = f"leased: attempt {lease.attempt} is under way; the lease runs until {clock_time(score)}."
            return self._if_it(lease.request, Explanation(State.LEASED, text, host, lease=lease))

        return (yield from self._scan("leased", read))

    def delayed(self, host: HostState) -> Flow[Explanation | None]:
        def read(_: int, due: float, entry: bytes) -> Explanation | None:
            lease = commands.read_lease(entry.partition(b"\n")[2], self._keys.number, 0, due)
            last = f" after {lease.history[-1].reason}" if lease.history else ""
            why = f"attempt {lease.attempt + 1} comes then{last}" if lease.attempt else "it asked not to go before"
            text = f"delayed: due at {clock_time(due)}; {why}."
            return self._if_it(lease.request, Explanation(State.DELAYED, text, host, lease=lease))

        return (yield from self._scan("delayed", read))

    def dead(self, host: HostState) -> Flow[Explanation | None]:
        def read(_: int, buried: float, text: bytes) -> Explanation | None:
            letter = commands.read_letter(self._keys.number, "0", buried, text)
            words = f"dead since {clock_time(buried)} after {letter.attempts} attempts: {letter.reason}."
            return self._if_it(letter.request, Explanation(State.DEAD, words, host, letter=letter))

        return (yield from self._scan("dead", read))

    def queued(self, host: HostState, lane: int, lanes: list[int]) -> Flow[Explanation | None]:
        def read(position: int, _: float, item: bytes) -> Explanation | None:
            record = item.split(b"\n", 3)[3] if item[:1] == b"\x1e" else item
            request = codec.decode(record, self._address.host, lane)[0]
            ahead = ", behind those of higher priority" if lane != lanes[0] else ""
            text = f"ready: number {position + 1} of its host at priority {lane}{ahead}."
            return self._if_it(request, Explanation(State.READY, text, host))

        return (yield from self._scan("queue", read, lane))

    def _scan(
        self, place: str, read: Callable[[int, float, bytes], Explanation | None], lane: int = 0
    ) -> Flow[Explanation | None]:
        """Read the entries of one place that hold the path, until one is the request."""
        start, looked = 0, MAX_BATCH
        while looked == MAX_BATCH:
            looked, candidates = yield from ask(
                commands.locate(self._keys, place, start, self._part, self._address.host, lane)
            )
            for position, score, entry in candidates:
                found = read(position, float(score or 0) / 1000, entry)
                if found:
                    return found
            start += looked
        return None

    def _if_it(self, request: Request, explanation: Explanation) -> Explanation | None:
        return explanation if self._is_it(request) else None

    def _is_it(self, request: Request) -> bool:
        try:
            return _member(self._plan, request, parse(request.url)) == self._wanted
        except SilklineError:
            return False
