"""Where a request of a crawl in memory stands, in the words of `Frontier.explain`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from silkline.core.lease import State
from silkline.core.request import Request
from silkline.core.robots import name_of
from silkline.core.url import parse
from silkline.frontier import sentences
from silkline.frontier.filters import DeadFilter
from silkline.frontier.inspection import member_of
from silkline.frontier.offers import identity_member
from silkline.frontier.robots import origin_of
from silkline.frontier.roster import WorkerState
from silkline.frontier.sentences import Explanation
from silkline.testing.memory_crawl import STALE, MemoryCrawl
from silkline.testing.memory_entries import Entry, read_lease, read_letter, read_record
from silkline.testing.memory_host import MemoryHost
from silkline.testing.memory_letters import matching


def explain(
    crawl: MemoryCrawl, request: Request, agent: str | None, attempts: int | None, identities: Sequence[bytes]
) -> Explanation:
    address = parse(request.url)
    names = {identity_member(crawl.plan, identity) for identity in identities}
    names.add(member_of(crawl.plan, request, address))
    wanted = member_of(crawl.plan, replace(request, identity=b""), address)
    host = crawl.host(address.host)
    kept = crawl.kept_robots.get(origin_of(address))
    text = kept.text if kept and kept.fresh + STALE > crawl.now else None
    forbidden = sentences.forbidden(text, name_of(agent or crawl.plan.keys.crawl), request.url)
    found = _somewhere(crawl, wanted, host, attempts) or _queued(crawl, wanted, host)
    state = host.state(crawl.now)
    if found is None and names & crawl.seen:
        found = Explanation(State.DONE, sentences.DONE_TEXT, state)
    if found is None:
        refused = sentences.refused(crawl.state, state, crawl.plan.settings.budget.pages_per_host)
        return Explanation(None, sentences.NEVER_SEEN, state).adding(refused, forbidden)
    if found.state is State.READY:
        held_back = sentences.held_back(crawl.state, state, list(crawl.acts))
        return found.adding(held_back, forbidden, sentences.troubled(state))
    if found.state in (State.DELAYED, State.DEAD):
        return found.adding(forbidden, sentences.troubled(state))
    return found if found.state is State.LEASED else found.adding(forbidden)


def _somewhere(crawl: MemoryCrawl, wanted: str, host: MemoryHost, attempts: int | None) -> Explanation | None:
    """Explain a request that is outside its queue."""
    state = host.state(crawl.now)
    workers: list[WorkerState] = crawl.roster.workers(crawl.time.server, 1000)
    for held in crawl.leases.values():
        if _stored(crawl, held.entry) == wanted:
            return sentences.leased(state, read_lease(held.entry, held.token, held.until), workers)
    for held in crawl.delayed:
        if _stored(crawl, held.entry) == wanted:
            lease = read_lease(held.entry, held.token, held.until)
            return sentences.delayed(state, lease, crawl.time.server / 1000, attempts)
    for found in matching(crawl.letters.values(), DeadFilter(host=host.name)):
        if _stored(crawl, found.entry) == wanted:
            return sentences.dead(state, read_letter(found))
    return None


def _queued(crawl: MemoryCrawl, wanted: str, host: MemoryHost) -> Explanation | None:
    ahead = 0
    for priority, queue in sorted(host.queues.items(), reverse=True):
        for position, entry in enumerate(queue, 1):
            if _stored(crawl, entry) == wanted:
                return sentences.ready(host.state(crawl.now), ahead + position, priority)
        ahead += len(queue)
    return None


def _stored(crawl: MemoryCrawl, entry: Entry) -> str:
    """By what a stored request is found. What it was identified by is not stored."""
    request, _ = read_record(entry)
    return member_of(crawl.plan, request, parse(request.url))
