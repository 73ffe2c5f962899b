"""How a worker enters a crawl."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import scrapy

from silkline.core.errors import ConfigError, UnknownCrawl
from silkline.frontier.frontier import Frontier
from silkline.frontier.wishes import Wishes, read_wishes
from silkline.scrapy.options import Options
from silkline.worker.presence import this_process

log = logging.getLogger(__name__)

REMOVED_WITHIN = 20.0
"""Seconds for which a crawl that somebody removes is waited for."""
TRY_EVERY = 0.1
SCRAPY = {"scrapy": scrapy.__version__}
"""What tells our workers from others on a roster."""


async def open_frontier(
    options: Options, worker: str, emptied: Callable[[], None] = lambda: None
) -> tuple[Frontier, int]:
    """Open the crawl, emptied if the project wishes so, and sign in. Answers also how many requests wait in it.

    *emptied* is told that it was.

    A worker that leaves, or one that empties the crawl, may be about to remove it: then it is opened again. If it is not
    gone by then, the one who was to remove it has died, and we do it.
    """
    flush, patience = options.flush_on_start, time.monotonic() + REMOVED_WITHIN
    while True:
        try:
            frontier = await _open(options)
        except UnknownCrawl:
            continue  # it was removed while we opened it
        try:
            if not flush:
                await frontier.join(worker, info={**this_process(), **SCRAPY, "state": "working"})
                return await _open_again(options)
            flush = False
            if await _empty(frontier, options, worker):
                emptied()
        except UnknownCrawl:
            await (asyncio.sleep(TRY_EVERY) if time.monotonic() < patience else frontier.remove())
        finally:
            await frontier.close()


async def _open_again(options: Options) -> tuple[Frontier, int]:
    """Now that we are on its roster nobody removes it. Before, somebody may have, and made it anew with other settings."""
    frontier = await _open(options)
    return frontier, (await frontier.stats()).pending


async def _empty(frontier: Frontier, options: Options, worker: str) -> bool:
    """Remove the crawl, unless others work on it; answers whether it was."""
    others = await frontier.leave(worker, shut=True)
    if others:
        log.warning(
            "SCHEDULER_FLUSH_ON_START was not done: %d other workers are at work on the crawl %r", others, options.crawl
        )
    else:
        await frontier.remove()
    return not others


async def _open(options: Options) -> Frontier:
    """As the project wishes it. A crawl that is there takes on the project's pace; all else it keeps."""
    place = {"url": options.url, "crawl": options.crawl, "lease": options.lease, "overflow": options.overflow}
    try:
        return await Frontier.open(**place, **options.wishes)  # type: ignore[arg-type]
    except ConfigError as error:
        if "other settings" not in str(error):
            raise
    frontier = await Frontier.open(**place, create=False, **Wishes())  # type: ignore[arg-type]
    try:
        await _take_on_pace(frontier, options)
    except BaseException:
        await frontier.close()
        raise
    return frontier


async def _take_on_pace(frontier: Frontier, options: Options) -> None:
    stored = frontier.plan.settings
    if stored.politeness != options.politeness:
        await frontier.set_politeness(options.politeness)
        log.info(
            "the crawl %r had another pace (%s); it is %s now", options.crawl, stored.politeness, options.politeness
        )
    kept = frontier.plan.settings.conflicts(read_wishes(options.wishes))
    if kept:
        log.warning(
            "the crawl %r was created with other settings, and keeps them: %s. SCHEDULER_FLUSH_ON_START=True begins a new one",
            options.crawl,
            "; ".join(kept),
        )
