"""The flow that explains why a page is not crawled: it looks for it wherever a request can be."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from silkline.core.errors import SilklineError
from silkline.core.lease import State
from silkline.core.request import Request
from silkline.core.robots import name_of
from silkline.core.url import Address, parse
from silkline.frontier import acts, codec, commands, leasing, letters, roster, sentences
from silkline.frontier.acts import Act
from silkline.frontier.commands import MAX_BATCH
from silkline.frontier.effects import Flow, ask, ask_all
from silkline.frontier.host_state import HostState
from silkline.frontier.inspection import host_state, member_of
from silkline.frontier.keys import ShardKeys
from silkline.frontier.offers import identity_member
from silkline.frontier.plan import Plan
from silkline.frontier.robots import origin_of
from silkline.frontier.sentences import Explanation

Found = Flow[Explanation | None]
RECENT_ACTS = 200
MOST_WORKERS = 1000
MOST_LOOKED = 200_000
"""Entries of one place that are looked at; who waits behind so many others need not know the exact number."""


def explain(
    plan: Plan,
    item: str | Request,
    now: float,
    agent: str | None = None,
    attempts: int | None = None,
    identities: Sequence[bytes] = (),
) -> Flow[Explanation]:
    """Look for a request in every place it can be, and say what holds it back."""
    request = item if isinstance(item, Request) else Request(item)
    address = parse(request.url)
    keys = plan.shard_of(address.host)
    host = yield from host_state(plan, address.host)
    state = (yield from ask(commands.snapshot(keys)))["state"]
    kept = yield from ask(commands.robots(keys, origin_of(address), 0))
    forbidden = sentences.forbidden(kept.text, name_of(agent or plan.keys.crawl), request.url)
    found = yield from _Search(plan, request, now, attempts).anywhere(host, identities)
    if found is None:
        refused = sentences.refused(state, host, plan.settings.budget.pages_per_host)
        return Explanation(None, sentences.NEVER_SEEN, host).adding(refused, forbidden)
    if found.state is State.READY:
        noted = yield from _acts(plan, state, host)
        return found.adding(sentences.held_back(state, host, noted), forbidden, sentences.troubled(host))
    if found.state in (State.DELAYED, State.DEAD):
        return found.adding(forbidden, sentences.troubled(host))
    return found if found.state is State.LEASED else found.adding(forbidden)


def _acts(plan: Plan, state: str, host: HostState) -> Flow[list[Act]]:
    """What operators did, where that tells more."""
    if state == "open" and host.place != "paused":
        return []
    return (yield from ask(acts.audit(plan.keys.audit, RECENT_ACTS)))


class _Search:
    """Looks for one request where requests can be, some thousand entries at a time."""

    def __init__(self, plan: Plan, request: Request, now: float, attempts: int | None) -> None:
        self._plan = plan
        self._address = parse(request.url)
        self._keys: ShardKeys = plan.shard_of(self._address.host)
        self._asked = member_of(plan, request, self._address)
        self._stored = member_of(plan, replace(request, identity=b""), self._address)
        self._now = now
        self._attempts = attempts
        self._gave_up = False

    def anywhere(self, host: HostState, identities: Sequence[bytes]) -> Found:
        """None when it was never seen."""
        names = (self._asked, *(identity_member(self._plan, identity) for identity in identities))
        answers = yield from ask_all(commands.seen(self._keys, name, host.host) for name in names)
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
            return found  # its page has landed, and holds no place of its host any more
        if self._gave_up:
            return Explanation(None, sentences.too_deep(ahead, host), host)
        return Explanation(State.DONE, sentences.DONE_TEXT, host)

    def _leased(self, host: HostState) -> Found:
        def read(_: int, score: float, entry: bytes) -> Explanation | None:
            lease = leasing.read_lease(entry, self._keys.number, 0, score)
            return sentences.leased(host, lease) if self._is_it(lease.request) else None

        _, found = yield from self._scan("leased", read)
        if found is None or found.lease is None:
            return None
        workers = yield from ask(roster.workers(self._plan.keys, MOST_WORKERS))
        return sentences.leased(host, found.lease, workers)

    def _delayed(self, host: HostState) -> Found:
        def read(_: int, due: float, entry: bytes) -> Explanation | None:
            lease = leasing.read_lease(entry.partition(b"\n")[2], self._keys.number, 0, due)
            if not self._is_it(lease.request):
                return None
            return sentences.delayed(host, lease, self._now, self._attempts)

        return (yield from self._scan("delayed", read))[1]

    def _dead(self, host: HostState) -> Found:
        def read(_: int, buried: float, text: bytes) -> Explanation | None:
            letter = letters.read_letter(self._keys.number, "0", buried, text)
            return sentences.dead(host, letter) if self._is_it(letter.request) else None

        return (yield from self._scan("dead", read))[1]

    def _queued(self, host: HostState, lane: int, ahead: int) -> Flow[tuple[int, Explanation | None]]:
        def read(position: int, _: float, item: bytes) -> Explanation | None:
            record = item.split(b"\n", 3)[3] if item[:1] == b"\x1e" else item
            request = codec.decode(record, self._address.host, lane)[0]
            return sentences.ready(host, ahead + position + 1, lane) if self._is_it(request) else None

        return (yield from self._scan("queue", read, lane))

    def _scan(
        self, place: str, read: Callable[[int, float, bytes], Explanation | None], lane: int = 0
    ) -> Flow[tuple[int, Explanation | None]]:
        """Read the entries of one place that hold the path, until one is the request; how many were looked at."""
        start, looked, parts = 0, MAX_BATCH, _parts(self._address)
        while looked == MAX_BATCH and start < MOST_LOOKED:
            looked, candidates = yield from ask(
                commands.locate(self._keys, place, start, parts, self._address.host, lane)
            )
            for position, score, entry in candidates:
                found = read(position, float(score or 0) / 1000, entry)
                if found:
                    return start, found
            start += looked
        self._gave_up = self._gave_up or looked == MAX_BATCH
        return start, None

    def _is_it(self, request: Request) -> bool:
        """Whether a stored request is it. What it was identified by is not stored."""
        try:
            return member_of(self._plan, request, parse(request.url)) == self._stored
        except SilklineError:
            return False


def _parts(address: Address) -> tuple[str, str]:
    """What the record of a request holds: the start of its path, or else an escape, where it was spelled otherwise."""
    return re.split("[?%]", address.path, maxsplit=1)[0], "%"
