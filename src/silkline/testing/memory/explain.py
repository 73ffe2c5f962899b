"""Explain the state of a request of a crawl in memory, as `CrawlAdmin.explain` does."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from silkline.core.lease import State
from silkline.core.request import Request, host_of
from silkline.core.robots import name_of
from silkline.core.url import parse
from silkline.frontier.admin_verbs import explain_text
from silkline.frontier.admin_verbs.dead_letters import DeadFilter
from silkline.frontier.admin_verbs.explain_text import Explanation
from silkline.frontier.verbs.enqueue import identity_member, member_of
from silkline.frontier.verbs.groups import group_name
from silkline.frontier.verbs.robots import origin_of
from silkline.frontier.verbs.workers import WorkerState
from silkline.testing.memory.crawl import STALE, MemoryCrawl
from silkline.testing.memory.dead_letters import matching
from silkline.testing.memory.entries import MemoryEntry, read_letter, read_record, shown_lease
from silkline.testing.memory.host import MemoryHost


def explain(
    crawl: MemoryCrawl, request: Request, agent: str | None, attempts: int | None, identities: Sequence[bytes]
) -> Explanation:
    address = parse(request.url)
    names = {identity_member(crawl.layout, identity) for identity in identities}
    names.add(member_of(crawl.layout, request, address))
    wanted = member_of(crawl.layout, replace(request, identity=b""), address)
    host = crawl.host(host_of(request, address))
    kept = crawl.kept_robots.get(origin_of(address))
    text = kept.text if kept and kept.fresh + STALE > crawl.now else None
    forbidden = explain_text.forbidden(text, name_of(agent or crawl.layout.keys.crawl), request.url)
    found = _somewhere(crawl, wanted, host, attempts) or _queued(crawl, wanted, host)
    state = crawl.state_of(host)
    if found is None and names & crawl.seen:
        found = explain_text.done(state, crawl.dead_dropped)
    if found is None:
        refused = explain_text.refused(crawl.state, state, crawl.layout.settings.budget.pages_per_host)
        return Explanation(None, explain_text.NEVER_SEEN, state).adding(refused, forbidden)
    age = explain_text.age(found, crawl.time.server / 1000)
    if found.state is State.READY:
        held_back = explain_text.held_back(crawl.state, state, list(crawl.audit_log))
        return found.adding(held_back, _unhandled(crawl, found), forbidden, explain_text.troubled(state), age)
    if found.state is State.DELAYED and (group := crawl.groups.groups.get(group_name(request))):
        found = explain_text.waiting_for(found, group.state(group_name(request), crawl.time.ahead))
    if found.state in (State.DELAYED, State.DEAD):
        return found.adding(_unhandled(crawl, found), forbidden, explain_text.troubled(state), age)
    return found.adding(age) if found.state is State.LEASED else found.adding(forbidden)


def _unhandled(crawl: MemoryCrawl, found: Explanation) -> str:
    return explain_text.unhandled(found.handler, crawl.roster.workers(crawl.time.server, 1000))


def _somewhere(crawl: MemoryCrawl, wanted: str, host: MemoryHost, attempts: int | None) -> Explanation | None:
    """Explain a request that is outside its queue."""
    state = crawl.state_of(host)
    shift = crawl.time.shift
    workers: list[WorkerState] = crawl.roster.workers(crawl.time.server, 1000)
    for held in crawl.leases.values():
        if held.entry.host == host.name and _stored(crawl, held.entry) == wanted:
            return explain_text.leased(state, shown_lease(held, shift, crawl.now), workers)
    for held in crawl.delayed:
        if held.entry.host == host.name and _stored(crawl, held.entry) == wanted:
            return explain_text.delayed(state, shown_lease(held, shift, crawl.now), crawl.time.server / 1000, attempts)
    for found in matching(crawl.letters.values(), DeadFilter(host=host.name), shift=shift):
        if _stored(crawl, found.entry) == wanted:
            return explain_text.dead(state, read_letter(found, shift))
    return None


def _queued(crawl: MemoryCrawl, wanted: str, host: MemoryHost) -> Explanation | None:
    ahead = 0
    for priority, queue in sorted(host.queues.items(), reverse=True):
        for position, entry in enumerate(queue, 1):
            if _stored(crawl, entry) == wanted:
                request, _, created = read_record(entry, crawl.now)
                return explain_text.ready(crawl.state_of(host), ahead + position, priority, request.handler, created)
        ahead += len(queue)
    return None


def _stored(crawl: MemoryCrawl, entry: MemoryEntry) -> str:
    """Return the key by which a stored request is found. Its identity is not stored."""
    request = read_record(entry, crawl.now)[0]
    return member_of(crawl.layout, request, parse(request.url))
