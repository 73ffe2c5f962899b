"""Explain: find a request, wherever it is stored, and say why it is not crawled yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from silkline.core.lease import State
from silkline.core.request import Request
from silkline.core.robots import name_of
from silkline.core.url import ParsedUrl, parse
from silkline.errors import SilklineError
from silkline.frontier.store import record as codec
from silkline.frontier.store.keys import ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import MAX_BATCH, Command, Flow, ask, ask_all, load
from silkline.frontier.verbs import audit, explain_text
from silkline.frontier.verbs import workers as roster
from silkline.frontier.verbs.audit import AuditEntry
from silkline.frontier.verbs.claim import TRIED, read_lease
from silkline.frontier.verbs.dead_letters import read_letter
from silkline.frontier.verbs.enqueue import identity_member, member_of
from silkline.frontier.verbs.explain_text import Explanation
from silkline.frontier.verbs.hosts import HostState, host_state
from silkline.frontier.verbs.robots import origin_of, robots_command
from silkline.frontier.verbs.stats import snapshot

SearchResult = Flow[Explanation | None]
RECENT_ENTRIES = 200
MOST_WORKERS = 1000
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
    keys = layout.shard_of(address.host)
    host = yield from host_state(layout, address.host)
    state = (yield from ask(snapshot(keys)))["state"]
    kept = yield from ask(robots_command(keys, origin_of(address), 0))
    forbidden = explain_text.forbidden(kept.text, name_of(agent or layout.keys.crawl), request.url)
    found = yield from _Search(layout, request, now, attempts).anywhere(host, identities)
    if found is None:
        refused = explain_text.refused(state, host, layout.settings.budget.pages_per_host)
        return Explanation(None, explain_text.NEVER_SEEN, host).adding(refused, forbidden)
    if found.state is State.READY:
        noted = yield from _audit_entries(layout, state, host)
        unhandled = yield from _unhandled(layout, found)
        return found.adding(
            explain_text.held_back(state, host, noted), unhandled, forbidden, explain_text.troubled(host)
        )
    if found.state in (State.DELAYED, State.DEAD):
        unhandled = yield from _unhandled(layout, found)
        return found.adding(unhandled, forbidden, explain_text.troubled(host))
    return found if found.state is State.LEASED else found.adding(forbidden)


def may_hold(layout: CrawlLayout, url: str, identities: Sequence[bytes] = ()) -> Flow[bool]:
    """Return whether a search for a page makes sense: it was seen, its host has requests, or some are delayed, leased or dead."""
    address = parse(url)
    names = (member_of(layout, Request(url), address), *(identity_member(layout, identity) for identity in identities))
    return (yield from ask(holds(layout.shard_of(address.host), address.host, names)))


def _unhandled(layout: CrawlLayout, found: Explanation) -> Flow[str]:
    if found.handler is None:
        return ""
    workers = yield from ask(roster.workers(layout.keys, MOST_WORKERS))
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
        self._keys: ShardKeys = layout.shard_of(self._address.host)
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
        workers = yield from ask(roster.workers(self._layout.keys, MOST_WORKERS))
        return explain_text.leased(host, found.lease, workers)

    def _delayed(self, host: HostState) -> SearchResult:
        def read(_: int, due: float, entry: bytes) -> Explanation | None:
            lease = read_lease(entry.partition(b"\n")[2], self._keys.number, "0", due)
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
            request = codec.decode(record, self._address.host, lane)[0]
            if not self._is_it(request):
                return None
            return explain_text.ready(host, ahead + position + 1, lane, request.handler)

        return (yield from self._scan("queue", read, lane))

    def _scan(
        self, place: str, read: Callable[[int, float, bytes], Explanation | None], lane: int = 0
    ) -> Flow[tuple[int, Explanation | None]]:
        """Read the entries of one place that contain the path until one is the request. Returns how many entries were searched."""
        start, looked, parts = 0, MAX_BATCH, _parts(self._address)
        while looked == MAX_BATCH and start < MOST_LOOKED:
            looked, candidates = yield from ask(locate(self._keys, place, start, parts, self._address.host, lane))
            for position, score, entry in candidates:
                found = read(position, float(score or 0) / 1000, entry)
                if found:
                    return start, found
            start += looked
        self._gave_up = self._gave_up or looked == MAX_BATCH
        return start, None

    def _is_it(self, request: Request) -> bool:
        """Return whether a stored request is the one to find. Its `identity` is not stored, so the URL decides."""
        try:
            return member_of(self._layout, request, parse(request.url)) == self._stored
        except SilklineError:
            return False


def _parts(address: ParsedUrl) -> tuple[str, str]:
    """Return strings of which the record contains one: the start of the path, or, if the path was written differently, an escape."""
    return re.split("[?%]", address.path, maxsplit=1)[0], "%"


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
