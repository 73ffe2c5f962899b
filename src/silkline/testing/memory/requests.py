"""List, drop and promote requests of a crawl in memory, as `CrawlAdmin` does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from silkline.core.lease import State
from silkline.frontier.admin_verbs.requests import (
    ListedRequest,
    RequestPage,
    check_ids,
    check_listing,
    listed,
    wrong_position,
)
from silkline.testing.memory.crawl import MemoryCrawl
from silkline.testing.memory.entries import Held, MemoryEntry, shown_lease


def requests(crawl: MemoryCrawl, state: str, host: str | None, limit: int, after: str) -> RequestPage:
    check_listing(state, limit)
    if after and not after.isdecimal():
        raise wrong_position(after)
    found, first = _listed(crawl, State(state), host), int(after or 0)
    more = len(found) > first + limit
    return RequestPage(found[first : first + limit], str(first + limit) if more else "")


def _listed(crawl: MemoryCrawl, state: State, host: str | None) -> list[ListedRequest]:
    return [
        listed(id_, state, shown_lease(held, crawl.time.shift, crawl.now))
        for id_, held in _held(crawl, state)
        if host is None or held.entry.host == host
    ]


def _held(crawl: MemoryCrawl, state: State) -> list[tuple[str, Held]]:
    if state is State.READY:
        return [(f"ready:0:{id(entry)}", Held(0, 0, entry)) for entry in _queued(crawl)]
    some = crawl.delayed if state is State.DELAYED else crawl.leases.values()
    by_time = sorted(some, key=lambda held: (held.until, held.token))
    return [(f"{state}:0:{held.token}", replace(held)) for held in by_time]


def _queued(crawl: MemoryCrawl) -> list[MemoryEntry]:
    return [
        entry
        for host in crawl.hosts.values()
        for priority in sorted(host.queues, reverse=True)
        for entry in host.queues[priority]
    ]


def drop(crawl: MemoryCrawl, ids: Iterable[str], reason: str = "") -> int:
    chosen = {reference for _, reference in check_ids("drop", ids)}
    delayed = [held for held in crawl.delayed if f"delayed:{held.token}" in chosen]
    queued = [entry for entry in _queued(crawl) if f"ready:{id(entry)}" in chosen]
    crawl.drop_some(queued, delayed, reason)
    return len(delayed) + len(queued)


def promote(crawl: MemoryCrawl, ids: Iterable[str]) -> int:
    chosen = [reference for _, reference in check_ids("promote", ids)]
    by_reference = {f"delayed:{held.token}": held for held in crawl.delayed}
    found = [by_reference[reference] for reference in chosen if reference in by_reference]
    crawl.promote_some(found)
    return len(found)
