"""Single requests: find one wherever it is stored, explain why it is not crawled yet, list those in one state, drop and promote them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from msgspec.structs import replace

from silkline.core.lease import FailedAttempt, Lease, State
from silkline.core.request import Request, host_of
from silkline.core.robots import name_of
from silkline.core.url import ParsedUrl, parse
from silkline.errors import ConfigError, SilklineError
from silkline.frontier.admin_verbs import audit, explain_text
from silkline.frontier.admin_verbs.audit import AuditEntry
from silkline.frontier.admin_verbs.dead_letters import read_letter, without_record
from silkline.frontier.admin_verbs.explain_text import Explanation
from silkline.frontier.admin_verbs.stats import snapshot
from silkline.frontier.store import record as codec
from silkline.frontier.store.keys import ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import MAX_BATCH, Command, Flow, ask, ask_all, load
from silkline.frontier.verbs import workers as roster
from silkline.frontier.verbs.claim import TRIED, read_lease
from silkline.frontier.verbs.enqueue import identity_member, member_of
from silkline.frontier.verbs.groups import group_name, group_state
from silkline.frontier.verbs.hosts import HostState, host_state
from silkline.frontier.verbs.robots import origin_of, robots_command

SearchResult = Flow[Explanation | None]
RECENT_ENTRIES = 200
MOST_LOOKED = 200_000
"""Entries of one place that are searched. Behind that many requests, the exact position does not matter."""


def explain(
    layout: CrawlLayout,
    item: str | Request,
    now: float,
    agent: str | None = None,
    attempts: int | None = None,
    identities: Sequence[bytes] = (),
) -> Flow[Explanation]:
    """Find a request in every place where it can be stored, and explain what it waits for."""
    request = item if isinstance(item, Request) else Request(item)
    address = parse(request.url)
    queue = host_of(request, address)
    host = yield from host_state(layout, queue)
    state = (yield from ask(snapshot(layout.shard_of(queue))))["state"]
    kept = yield from ask(robots_command(layout.shard_of(address.host), origin_of(address), 0))
    forbidden = explain_text.forbidden(kept.text, name_of(agent or layout.keys.crawl), request.url)
    found = yield from _Search(layout, request, now, attempts).anywhere(host, identities)
    if found is None:
        refused = explain_text.refused(state, host, layout.settings.budget.pages_per_host)
        return Explanation(None, explain_text.NEVER_SEEN, host).adding(refused, forbidden)
    age = explain_text.age(found, now)
    if found.state is State.READY:
        noted = yield from _audit_entries(layout, state, host)
        unhandled = yield from _unhandled(layout, found)
        return found.adding(
            explain_text.held_back(state, host, noted), unhandled, forbidden, explain_text.troubled(host), age
        )
    if found.state is State.DELAYED and found.handler == queue:  # a call of a task
        group = yield from group_state(layout, group_name(request))
        found = explain_text.waiting_for(found, group) if group else found
    if found.state in (State.DELAYED, State.DEAD):
        unhandled = yield from _unhandled(layout, found)
        return found.adding(unhandled, forbidden, explain_text.troubled(host), age)
    return found.adding(age) if found.state is State.LEASED else found.adding(forbidden)


def may_hold(layout: CrawlLayout, request: Request, identities: Sequence[bytes] = ()) -> Flow[bool]:
    """Return whether a search for a page makes sense: it was seen, its host has requests, or some are delayed, leased or dead."""
    address = parse(request.url)
    host = host_of(request, address)
    names = (member_of(layout, request, address), *(identity_member(layout, identity) for identity in identities))
    return (yield from ask(holds(layout.shard_of(host), host, names)))


def _unhandled(layout: CrawlLayout, found: Explanation) -> Flow[str]:
    if found.handler is None:
        return ""
    workers = yield from ask(roster.workers(layout.keys, roster.ALL_WORKERS))
    return explain_text.unhandled(found.handler, workers)


def _audit_entries(layout: CrawlLayout, state: str, host: HostState) -> Flow[list[AuditEntry]]:
    """Return what operators did, if that explains why the crawl or the host is paused."""
    if state == "open" and host.place != "paused":
        return []
    return (yield from ask(audit.read_audit(layout.keys.audit, RECENT_ENTRIES)))


class _Search:
    """Searches the places where a request can be stored, a thousand entries at a time."""

    def __init__(self, layout: CrawlLayout, request: Request, now: float, attempts: int | None) -> None:
        self._layout = layout
        self._address = parse(request.url)
        self._host = host_of(request, self._address)
        self._keys: ShardKeys = layout.shard_of(self._host)
        self._asked = member_of(layout, request, self._address)
        self._stored = member_of(layout, replace(request, identity=b""), self._address)
        self._now = now
        self._attempts = attempts
        self._gave_up = False

    def anywhere(self, host: HostState, identities: Sequence[bytes]) -> SearchResult:
        """Return None if the request was never seen."""
        names = (self._asked, *(identity_member(self._layout, identity) for identity in identities))
        answers = yield from ask_all(seen_command(self._keys, name, host.host) for name in names)
        seen, lanes = any(seen for seen, _ in answers), answers[0][1]
        places = [self._delayed, self._dead]
        if host.leased:
            places.insert(0, self._leased)
        for look in places:
            found = yield from look(host)
            if found:
                return found
        ahead = 0
        for lane in lanes:
            looked, found = yield from self._queued(host, lane, ahead)
            if found:
                return found
            ahead += looked
        if not seen:
            return None
        if not host.leased and (found := (yield from self._leased(host))):
            return found  # its page is downloaded and no longer counts as in progress on its host
        if self._gave_up:
            return Explanation(None, explain_text.too_deep(ahead, host), host)
        shard = yield from ask(snapshot(self._keys))
        return explain_text.done(host, int(shard["dead_dropped"]))

    def _leased(self, host: HostState) -> SearchResult:
        def read(_: int, score: float, entry: bytes) -> Explanation | None:
            lease = read_lease(entry, self._keys.number, "0", score)
            return explain_text.leased(host, lease) if self._is_it(lease.request) else None

        _, found = yield from self._scan("leased", read)
        if found is None or found.lease is None:
            return None
        workers = yield from ask(roster.workers(self._layout.keys, roster.ALL_WORKERS))
        return explain_text.leased(host, found.lease, workers)

    def _delayed(self, host: HostState) -> SearchResult:
        def read(_: int, due: float, entry: bytes) -> Explanation | None:
            lease = read_lease(entry.partition(b"\n")[2], self._keys.number, "0", due, near=self._now)
            if not self._is_it(lease.request):
                return None
            return explain_text.delayed(host, lease, self._now, self._attempts)

        return (yield from self._scan("delayed", read))[1]

    def _dead(self, host: HostState) -> SearchResult:
        def read(_: int, buried: float, text: bytes) -> Explanation | None:
            letter = read_letter(self._keys.number, "0", buried, text)
            return explain_text.dead(host, letter) if self._is_it(letter.request) else None

        return (yield from self._scan("dead", read))[1]

    def _queued(self, host: HostState, lane: int, ahead: int) -> Flow[tuple[int, Explanation | None]]:
        def read(position: int, _: float, item: bytes) -> Explanation | None:
            record = item.split(b"\n", 3)[3] if item[:1] == TRIED else item
            decoded = codec.decode_stored(record, self._host, lane, self._now)
            request, created = decoded[0], decoded[2]
            if not self._is_it(request):
                return None
            return explain_text.ready(host, ahead + position + 1, lane, request.handler, created)

        return (yield from self._scan("queue", read, lane))

    def _scan(
        self, place: str, read: Callable[[int, float, bytes], Explanation | None], lane: int = 0
    ) -> Flow[tuple[int, Explanation | None]]:
        """Read the entries of one place that contain the path until one is the request. Returns how many entries were searched."""
        start, looked, parts = 0, MAX_BATCH, _parts(self._address)
        while looked == MAX_BATCH and start < MOST_LOOKED:
            looked, candidates = yield from ask(locate(self._keys, place, start, parts, self._host, lane))
            for position, score, entry in candidates:
                found = read(position, float(score or 0) / 1000, entry)
                if found:
                    return start, found
            start += looked
        self._gave_up = self._gave_up or looked == MAX_BATCH
        return start, None

    def _is_it(self, request: Request) -> bool:
        """Return whether a stored request is the one to find, in its queue. Its `identity` is not stored, so the URL decides."""
        try:
            address = parse(request.url)
            return host_of(request, address) == self._host and member_of(self._layout, request, address) == self._stored
        except SilklineError:
            return False


def _parts(address: ParsedUrl) -> tuple[str, str]:
    """Return strings of which the record contains one: the start of the path, or, if the path was written differently, an escape.

    The leading slash of the path may not be stored.
    """
    return re.split("[?%]", address.path[1:], maxsplit=1)[0], "%"


def seen_command(keys: ShardKeys, member: str, host: str) -> Command[tuple[bool, list[int]]]:
    def decode(reply: list[Any]) -> tuple[bool, list[int]]:
        return bool(reply[0]), [int(priority) for priority in reply[1].split()]

    return Command(load("seen"), (keys.ledger,), (member, host), decode)


def holds(keys: ShardKeys, host: str, members: Sequence[str]) -> Command[bool]:
    """Return whether a page of that host may be on the shard."""
    return Command(load("holds"), (keys.ledger,), (host, *members), bool)


def locate(
    keys: ShardKeys, place: str, start: int, parts: tuple[str, str], host: str, priority: int
) -> Command[tuple[int, list[tuple[int, bytes, bytes]]]]:
    """Find entries of one place that contain one of the *parts*. Returns how many were searched, then position, score and entry of each."""

    def decode(reply: list[Any]) -> tuple[int, list[tuple[int, bytes, bytes]]]:
        return reply[0], [(reply[i], reply[i + 1], reply[i + 2]) for i in range(1, len(reply), 3)]

    return Command(load("locate"), (keys.ledger,), (place, start, MAX_BATCH, *parts, host, priority), decode)


ListedState = Literal["ready", "delayed", "leased"]
"""The states whose requests can be listed. Dead letters have lists of their own; of done requests, only fingerprints are kept."""
MOST_SEARCHED = 20_000
"""Delayed or leased requests among which those of one host are searched per call."""
CHANGED_TOGETHER = 100
"""Requests that are dropped or promoted per command."""
_POSITION = re.compile(
    r"([0-9]{1,5}):((?:[a-z]{1,9} [0-9]{1,20} [0-9]{1,15} )?-?[0-9]{0,5} [0-9]{1,15}|[0-9]{1,17}(?:\.[0-9]+)? [0-9]{1,15}|)"
)
_LISTED_ID = re.compile(r"(ready|delayed):([0-9]{1,5}):(\S+)")


class ListedRequest(NamedTuple):
    """A request that waits or is in progress."""

    id: str
    """For `drop` and `promote`; not valid any more once the request has moved on."""
    state: State
    request: Request
    host: str
    attempts: int
    crashes: int
    """Strikes. One that was withdrawn while the request is delayed is counted until the request is claimed."""
    due: float | None
    """Unix time from which on a delayed request can be claimed."""
    expires: float | None
    """Unix time at which the lease of a leased request expires."""
    history: tuple[FailedAttempt, ...]
    created: float | None = None
    """Unix time at which the request was enqueued, as `Lease.created`."""

    @property
    def url(self) -> str:
        return self.request.url


class RequestPage(NamedTuple):
    """Some requests, and where to continue."""

    requests: list[ListedRequest]
    after: str
    """Pass it to the next call. Empty at the end; there may be more even if this page has fewer requests than asked for."""


def requests(
    layout: CrawlLayout, state: str, host: str | None, limit: int, after: str, now: float
) -> Flow[RequestPage]:
    """List requests, shard by shard. The work per call is bounded, however long the queues are."""
    check_listing(state, limit)
    shards = layout.shards if host is None else (layout.shard_of(host),)
    number, position = _read_position(after, shards)
    found: list[ListedRequest] = []
    searched = 0
    while len(found) < limit and searched < MOST_SEARCHED:
        keys = layout.shards[number]
        listing = list_command(keys, state, host or "", limit - len(found), position, now)
        following, read, some = yield from ask(listing)
        found += some
        searched += read
        position = following
        if not position:
            if keys == shards[-1]:
                return RequestPage(found, "")
            number += 1
    return RequestPage(found, f"{number}:{position}")


def check_listing(state: str, limit: int) -> None:
    if state not in get_args(ListedState):
        raise ConfigError(f"requests are listed by state: {', '.join(get_args(ListedState))}; got {state!r}")
    if type(limit) is not int or not 1 <= limit <= MAX_BATCH:
        raise ConfigError(f"limit must be between 1 and {MAX_BATCH}, got {limit!r}")


def wrong_position(after: str) -> ConfigError:
    return ConfigError(f"after must be the one of the previous page, got {str(after)[:60]!r}")


def _read_position(after: str, shards: Sequence[ShardKeys]) -> tuple[int, str]:
    if not after:
        return shards[0].number, ""
    found = _POSITION.fullmatch(after)
    if not found or int(found[1]) not in {keys.number for keys in shards}:
        raise wrong_position(after)
    return int(found[1]), found[2]


def list_command(
    keys: ShardKeys, state: str, host: str, most: int, position: str, now: float
) -> Command[tuple[str, int, list[ListedRequest]]]:
    """List requests of a shard. Returns the next position, "" at the end, how many entries were read, and the requests."""

    def decode(reply: list[Any]) -> tuple[str, int, list[ListedRequest]]:
        rows = [reply[i : i + 3] for i in range(2, len(reply), 3)]
        return reply[0].decode(), reply[1], [_read_listed(keys.number, state, now, *row) for row in rows]

    return Command(load("requests"), (keys.ledger,), (state, host, most, position), decode)


def _read_listed(shard: int, state: str, now: float, reference: bytes, time: bytes, entry: bytes) -> ListedRequest:
    at = float(time) / 1000 if time else 0.0
    try:
        lease = read_lease(entry, shard, "0", at, near=now)
    except Exception:  # noqa: BLE001 - one request that cannot be read must not hide the others
        lease = read_lease(without_record(entry), shard, "0", at)
    return listed(f"{state}:{shard}:{reference.decode()}", State(state), lease)


def listed(id_: str, state: State, lease: Lease) -> ListedRequest:
    """Describe a request, given its lease or what it would be."""
    return ListedRequest(
        id=id_,
        state=state,
        request=lease.request,
        host=lease.host,
        attempts=lease.attempt,
        crashes=lease.crashes,
        due=lease.expires if state is State.DELAYED else None,
        expires=lease.expires if state is State.LEASED else None,
        history=lease.history,
        created=lease.created,
    )


def change_listed(
    layout: CrawlLayout, verb: Literal["drop", "promote"], ids: Iterable[str], reason: str = ""
) -> Flow[int]:
    """Drop or promote requests by their ids; with a *reason*, those that are dropped become dead letters.

    Returns how many; those that have moved on since they were listed do not count.
    """
    by_shard: dict[int, list[str]] = {}
    for shard, reference in check_ids(verb, ids):
        if shard < len(layout.shards):
            by_shard.setdefault(shard, []).append(reference)
    changed = 0
    for shard, references in by_shard.items():
        for first in range(0, len(references), CHANGED_TOGETHER):
            some = references[first : first + CHANGED_TOGETHER]
            keys = layout.shards[shard]
            changed += yield from ask(drop(keys, some, reason) if verb == "drop" else promote(keys, some))
    return changed


def check_ids(verb: str, ids: Iterable[str]) -> list[tuple[int, str]]:
    """Return shard and reference of each id, once."""
    given = [ids] if isinstance(ids, str) else list(ids)
    found = []
    for id_ in dict.fromkeys(given):
        read = _LISTED_ID.fullmatch(id_)
        if not read or (verb == "promote" and read[1] != "delayed"):
            which = "delayed" if verb == "promote" else "ready or delayed"
            raise ConfigError(f"{verb} takes the ids of {which} requests, as they were listed; got {str(id_)[:80]!r}")
        found.append((int(read[2]), f"{read[1]}:{read[3]}"))
    return found


def drop(keys: ShardKeys, references: Sequence[str], reason: str = "") -> Command[int]:
    return Command(load("drop"), (keys.ledger,), (reason, *references), int)


def promote(keys: ShardKeys, references: Sequence[str]) -> Command[int]:
    return Command(load("promote"), (keys.ledger,), tuple(references), int)
