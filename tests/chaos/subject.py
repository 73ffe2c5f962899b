"""One face for both frontiers, so that a test needs to be written once."""

from __future__ import annotations

import asyncio
from functools import partial

from silkline import Frontier, SyncFrontier


class SyncSubject:
    """A `SyncFrontier` whose verbs run in threads, to be awaited as those of a `Frontier` are."""

    def __init__(self, frontier):
        self.frontier = frontier

    def __getattr__(self, verb):
        found = getattr(self.frontier, verb)
        return partial(asyncio.to_thread, found) if callable(found) else SyncSubject(found)  # `admin` and `internal`


async def open_subject(kind, **settings):
    if kind == "async":
        return await Frontier.open(**settings)
    return SyncSubject(await asyncio.to_thread(SyncFrontier.open, **settings))


async def crawl_all(frontier, links=None, patience=100.0):
    """Complete what comes, a page with the links it has, until nothing is left; answers the URLs."""
    done = []
    async with asyncio.timeout(patience):
        while not await frontier.finished():
            for lease in await frontier.claim(50, wait=0.2):
                await frontier.complete(lease, (links or {}).get(lease.url, ()))
                done.append(lease.url)
    return done
